"""Take the pictures of the README from a running SpeedTrack: ``make pictures URL=http://127.0.0.1:8000 PROJECT=redis``.

Each picture is the first screen of a page, as a reader with a light theme sees it. The pages are those of the project's
last change, its newest alert and its last two releases, as far as there are any.
"""

import argparse
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

FOLDER = Path(__file__).resolve().parents[1] / "docs"
SIZE = ViewportSize(width=1280, height=800)
DRAWN_MS = 500  # for what is drawn after the last answer
#: File -> how to get to its page from the project's page: the selectors of the links to follow.
PICTURES: dict[str, list[str]] = {
    "project.png": [],
    "timeline.png": ["main a[href*='around=']", "a[href*='last=50']"],
    "compare.png": ["a[href*='/compare/']"],
    "releases.png": ["a[href$='/releases/']"],
    "alert.png": ["a[href*='/alerts/']", "main a[href^='/alerts/']"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("project")
    parser.add_argument("--only", choices=PICTURES, action="append", help="one picture; may be repeated")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    program = shutil.which("chromium")
    if program is None:
        sys.exit("error: chromium is not on PATH: install it (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name in options.only or PICTURES:
            page = opened(browser, f"{options.url}/p/{options.project}/", PICTURES[name])
            if page is None:
                print(f"{name}: left out, as the project has no such page yet")
                continue
            page.screenshot(path=options.folder / name)
            print(f"{name}: {page.url}")
        browser.close()


def opened(browser: Browser, address: str, links: list[str]) -> Page | None:
    """The page to which these links lead; None where one of them is missing."""
    page = browser.new_page(viewport=SIZE, color_scheme="light")
    answer = page.goto(address)
    if answer is None or not answer.ok:
        sys.exit(f"error: {address} cannot be shown ({answer and answer.status}): is the server running?")
    for selector in links:
        link = page.locator(selector).first
        if link.count() == 0:
            return None
        link.click()
        page.wait_for_load_state("networkidle")
    page.wait_for_timeout(DRAWN_MS)
    return page


if __name__ == "__main__":
    main()
