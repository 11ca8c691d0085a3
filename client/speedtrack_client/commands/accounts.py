"""Commands about the server and the login there."""

import getpass
import os
import sys

from speedtrack_client import logins
from speedtrack_client.arguments import Options
from speedtrack_client.calls import Api, JsonObject, plain
from speedtrack_client.failures import Exit, Failure, misused
from speedtrack_client.printing import Printer, is_interactive


def login(options: Options, printer: Printer) -> Exit:
    server = options.server or options.url or os.environ.get(logins.URL) or logins.load()["default"]
    if not server:
        raise misused("which server? Run `speedtrack login https://...`")
    url = logins.normal(server)
    token = asked_token(options, url)
    installation = Api(logins.Login(url, token)).installation()
    if not installation["user"]:
        raise Failure(f"{url} does not know this token: make one in your settings there", Exit.REFUSED)
    logins.store(url, token)
    if logins.is_open_to_listeners(url):
        printer.say("warning: without https, everybody on the way can read the token")
    if printer.as_json:
        printer.json(who(url, installation))
    printer.line(
        f"Logged in to {url} as {plain(installation['user'])}; the token may: {', '.join(installation['scopes'])}."
    )
    return Exit.FINE


def asked_token(options: Options, url: str) -> str:
    """The token that the user enters or pipes in; it is not shown. Raises Failure."""
    if options.token_stdin:
        token = sys.stdin.readline()
    elif is_interactive():
        try:
            token = getpass.getpass(f"Token for {url} (stpt_..., from your settings there): ")
        except EOFError:
            token = ""
    else:
        raise misused("there is no terminal to ask on: give the token by --token-stdin, or set SPEEDTRACK_TOKEN")
    if not (secret := logins.clean(token)):
        raise misused("no token was given")
    return secret


def logout(options: Options, printer: Printer) -> Exit:
    url = logins.login_for(options.url).url
    was_there = logins.forget(url)
    if printer.as_json:
        printer.json({"url": url, "forgotten": was_there})
    printer.line(f"The token for {url} is forgotten." if was_there else f"There was no token for {url}.")
    return Exit.FINE


def whoami(options: Options, printer: Printer) -> Exit:
    api = Api(logins.login_for(options.url))
    installation = api.installation()
    if printer.as_json:
        printer.json(who(api.login.url, installation))
    name = plain(installation["user"]) if installation["user"] else "nobody: only what is public can be read"
    printer.line(f"{api.login.url} runs SpeedTrack {installation['version']}.")
    printer.line(f"You are {name}; you may: {', '.join(installation['scopes'])}.")
    return Exit.FINE


def who(url: str, installation: JsonObject) -> JsonObject:
    return {
        "url": url,
        "version": installation["version"],
        "user": installation["user"],
        "scopes": installation["scopes"],
    }
