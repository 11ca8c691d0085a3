"""Headers on every answer that restrict browsers: Django's, and those that the servers add without Django."""

#: Django has no setting for this header. None of our pages needs a device, a sensor or a payment.
PERMISSIONS = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "browsing-topics",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "microphone",
        "midi",
        "payment",
        "serial",
        "usb",
    )
)
#: For answers that are no pages: refusals of a request that never reached Django, and streams of events.
WITHOUT_PAGE = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": PERMISSIONS,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}


def without_page(hsts_s: int) -> list[tuple[str, str]]:
    """The headers, with the one that keeps browsers on https if the installation uses it."""
    strict = {"Strict-Transport-Security": f"max-age={hsts_s}"} if hsts_s else {}
    return list((WITHOUT_PAGE | strict).items())
