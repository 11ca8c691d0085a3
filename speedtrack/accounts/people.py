"""Accounts for operators, and the end of an account: the person's deeds stay in the history, without the name."""

from allauth.account.models import EmailAddress
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import connection, models, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from speedtrack.accounts.logins import sessions
from speedtrack.accounts.models import AuditEntry, Membership, PersonToken, Role
from speedtrack.projects.models import Project

# The addresses of an account in lower case: its own and the confirmed ones. Its own may be among those to be confirmed.
ADDRESSES = """
    SELECT lower(u.email) AS address FROM auth_user u
     WHERE u.id = %(user)s AND u.email <> ''
       AND NOT EXISTS (SELECT FROM account_emailaddress e
                        WHERE e.user_id = u.id AND lower(e.email) = lower(u.email) AND NOT e.verified)
     UNION
    SELECT lower(e.email) FROM account_emailaddress e WHERE e.user_id = %(user)s AND e.verified AND e.email <> ''
"""
FORMER = "former user"  # nobody can choose this name, as it has a blank


class AccountUnchanged(Exception):
    """The account is not changed; the message has the reason, and the first remedy."""


def user_named(name: str) -> User:
    """The account with this user name. Raises AccountUnchanged."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise AccountUnchanged(f"there is no account {name!r}: the list of accounts shows all")
    return user


@transaction.atomic
def add(name: str, email: str = "", password: str | None = None) -> User:
    """Make an account; without a password its person sets one by mail. Raises AccountUnchanged."""
    try:
        UnicodeUsernameValidator()(name)
        if email:
            validate_email(email)
    except ValidationError as e:
        raise AccountUnchanged(f"{name} {email}".strip() + f": {' '.join(e.messages)}") from e
    if len(name) > 150 or User.objects.filter(username__iexact=name).exists():
        raise AccountUnchanged(
            f"there is an account {name!r}, or the name is longer than 150 characters: choose another"
        )
    if email and owner_of(email):
        raise AccountUnchanged(f"another account has the address {email}")
    user = User.objects.create_user(name, email, password)
    if email:
        set_address(user, email)
    return user


def owner_of(email: str) -> User | None:
    return User.objects.filter(Q(email__iexact=email) | Q(emailaddress__email__iexact=email)).first()


def addresses_of(user: User) -> set[str]:
    """The addresses of an account in lower case. Unconfirmed ones are left out: they may be somebody else's."""
    with connection.cursor() as cursor:
        cursor.execute(ADDRESSES, {"user": user.pk})
        return {address for (address,) in cursor}


@transaction.atomic
def set_address(user: User, email: str) -> None:
    """Make this the only address of the account.

    It counts as confirmed: it allows to log in, and to replace a lost password.
    """
    EmailAddress.objects.filter(user=user).delete()
    EmailAddress.objects.create(user=user, email=email.lower(), primary=True, verified=True)
    User.objects.filter(pk=user.pk).update(email=email)


@transaction.atomic
def deactivate(user: User) -> None:
    """Close the account: its sessions end at once, and its tokens are revoked. Raises AccountUnchanged."""
    require_another_operator(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    PersonToken.objects.filter(user=user, revoked_at=None).update(revoked_at=Now())
    sessions.end_all(user)


def activate(user: User) -> None:
    """Undo ``deactivate``, except for the tokens."""
    if user.username.startswith(f"{FORMER} "):
        raise AccountUnchanged(f"{user.username} is gone for ever: make a new account")
    User.objects.filter(pk=user.pk).update(is_active=True)


@transaction.atomic
def set_operator(user: User, is_operator: bool) -> None:
    """Make an account an operator, or not. Raises AccountUnchanged for the last one, or if nobody can log in to it."""
    if is_operator and not user.is_active:
        raise AccountUnchanged(f"{user.username} is deactivated: activate it first")
    if not is_operator:
        require_another_operator(user)
    User.objects.filter(pk=user.pk).update(is_superuser=is_operator, is_staff=is_operator)


@transaction.atomic
def remove(user: User) -> str:
    """End an account for ever. Return the name that replaces it in the history. Raises AccountUnchanged.

    Data of the person alone is deleted: tokens, memberships, addresses, subscriptions. Records of actions stay, and
    refer to the user's row, which is kept without personal data. ``notices.leaving`` calls this.
    """
    user = User.objects.select_for_update().get(pk=user.pk)
    require_another_operator(user)
    if lone := alone_in(user):
        raise AccountUnchanged(
            f"hand over first: nobody else owns the private project{'s'[: len(lone) > 1]} {', '.join(lone)}:"
            " make somebody else an owner, or make it public"
        )
    sessions.end_all(user)
    for identifier in {user.username, *addresses_of(user)}:
        AccessAttempt.objects.filter(username__iexact=identifier).delete()
    for relation in User._meta.related_objects:
        if relation.on_delete is models.CASCADE and relation.field.model._meta.managed:
            relation.related_model._base_manager.filter(**{relation.field.name: user}).delete()
    name = f"{FORMER} {user.pk}"
    rename_in_audit_log(user, name)
    user.username, user.email, user.first_name, user.last_name = name, "", "", ""
    user.is_active = user.is_superuser = user.is_staff = False
    user.last_login = None
    user.set_unusable_password()
    user.save()
    return name


def rename_in_audit_log(user: User, name: str) -> None:
    """Remove the person's name and addresses from entries about their actions, and about their account."""
    AuditEntry.objects.filter(user=user).update(name=name)
    AuditEntry.objects.filter(user=user, action="session.end").update(target="a session")
    of_people = Q(action__startswith="account.") | Q(action__startswith="member.") | Q(action="invitation.accept")
    about = AuditEntry.objects.filter(of_people, target=user.username)
    about.filter(action="account.email").update(changes={})
    about.update(target=name)


def require_another_operator(user: User) -> None:
    """Raise AccountUnchanged if nobody else operates this installation."""
    operators = User.objects.select_for_update().filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if user.is_superuser and user.is_active and not operators:
        raise AccountUnchanged(f"{user.username} is the only operator: make somebody else one first")


def alone_in(user: User) -> list[str]:
    """The private projects that only this person owns."""
    co_owners = Membership.objects.filter(project=OuterRef("pk"), role=Role.OWNER, user__is_active=True).exclude(
        user=user
    )
    owned = Project.objects.filter(is_public=False, memberships__user=user, memberships__role=Role.OWNER)
    return list(owned.filter(~Exists(co_owners)).order_by("slug").values_list("slug", flat=True)[:20])
