"""Accounts: what their owners do with them, and operators with those of others."""

from collections.abc import Iterable

from django.contrib.auth.models import User

from speedtrack.accounts import people, tokens
from speedtrack.accounts.logins import browsers, firstowner, second_step, sessions
from speedtrack.accounts.models import Scope
from speedtrack.notices import leaving, subscribing
from speedtrack.operations.performing import Actor, Done, Ended, operation
from speedtrack.projects.models import Project


@operation("account.add")
def add(actor: Actor, name: str, email: str, password: str | None) -> Done:
    """Make an account. Raises AccountUnchanged."""
    user = people.add(name, email, password)
    later = ", without a password: its person sets one by “Password lost?” on the login page"
    return Done(f"account {name} made{'' if password else later}", user, row=user)


@operation("account.deactivate")
def deactivate(actor: Actor, user: User) -> Done:
    """Let nobody in by an account. Raises AccountUnchanged."""
    people.deactivate(user)
    return Done(f"account {user} lets nobody in: its sessions are ended, its tokens revoked", user)


@operation("account.activate")
def activate(actor: Actor, user: User) -> Done:
    """Undo ``deactivate``, except for the tokens. Raises AccountUnchanged."""
    people.activate(user)
    return Done(f"account {user} lets its person in again; revoked tokens stay revoked", user)


@operation("account.remove")
def remove(actor: Actor, user: User) -> Done:
    """End an account for ever; the target is the name that replaces it. Raises AccountUnchanged."""
    name, former = str(user), leaving.leave(user)
    user.refresh_from_db()  # no entry names the person any more
    return Done(f"account {name} is gone; what it has decided and noted stays, by {former}", former)


@operation("account.operator")
def set_operator(actor: Actor, user: User, is_operator: bool) -> Done:
    """Let an account operate this installation, or no longer. Raises AccountUnchanged."""
    people.set_operator(user, is_operator)
    sentence = f"account {user} operates {'this installation' if is_operator else 'nothing any more'}"
    return Done(sentence, user, {"operator": (user.is_superuser, is_operator)})


@operation("account.second-step-off")
def drop_second_step(actor: Actor, user: User) -> Done:
    """Take the second step away from somebody who has lost it."""
    state = "logs in by its password alone" if second_step.reset(user) else "had no second step"
    return Done(f"account {user} {state}; logged out", user)


@operation("account.address")
def give_address(actor: Actor, user_name: str, email: str) -> Done:
    """Change the mail address of an account. Raises NoSuchThing."""
    subscribing.give_address(user_name, email)
    return Done(f"the mails of {user_name} go to {email}", user_name)


@operation("account.owner-link")
def make_owner_link(actor: Actor, subject: None = None) -> Done:
    """Make the link by which the first operator makes an account: the secret. Raises NoLonger."""
    link = firstowner.make_link()
    sentence = f"Make the first account of this installation, once: {link}"
    return Done(sentence, "a link for the first operator", secret=link)


@operation("token.add")
def add_token(actor: Actor, user: User, name: str, scopes: Iterable[Scope], days: int, project: Project | None) -> Done:
    """Make a token; its text is the secret. Raises TooManyTokens."""
    token, text = tokens.issue(user, name, list(scopes), days, project)
    changes = {"scopes": (None, sorted(scopes)), "days": (None, days)}
    return Done(f"the token {name} is made", token, changes, token, text)


@operation("token.revoke")
def revoke_token(actor: Actor, user: User, pk: int) -> Done:
    """Revoke one of a person's tokens. Raises Ended."""
    token = tokens.revoke(user, pk)
    if token is None:
        raise Ended("you have no such token, or it was revoked")
    return Done(f"the token {token.name} is refused from now on", token, row=token)


@operation("session.end")
def end_session(actor: Actor, user: User, pk: int) -> Done:
    """End one of a person's sessions. Raises Ended."""
    session = sessions.end(user, pk)
    if session is None:
        raise Ended("you have no such session, or it has ended")
    browser = browsers.words(session.user_agent)
    return Done(f"{browser} is logged out", f"{browser} at {session.ip}")


@operation("session.end")
def end_other_sessions(actor: Actor, user: User, here: str | None) -> Done:
    """End all sessions of a person but the one with the key ``here``."""
    count = sessions.end_all(user, here)
    return Done(f"all other sessions are ended: {count}", f"{count} other sessions")
