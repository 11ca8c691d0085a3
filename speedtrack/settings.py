"""All settings, from environment variables. A wrong value stops the start with a sentence that says what to do."""

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from runners import brokers
from speedtrack.ground.observing import logs, traces
from speedtrack.ground.observing.variables import (
    MOST_DAYS,
    SHORTEST_KEY,
    env_bool,
    env_choice,
    env_days,
    env_hosts,
    env_int,
    env_keys,
    env_networks,
    env_ports,
    env_secret,
    env_secret_text,
    env_text,
    env_together,
    env_words,
)
from speedtrack.ground.postgres import databases
from speedtrack.ground.secrets import privatefiles
from speedtrack.ground.secrets.addresses import is_loopback
from speedtrack.http import bodylimits, origins

BASE_DIR = Path(__file__).resolve().parent.parent

# The usual port of each kind of encryption of mails.
EMAIL_PORTS = {"none": 25, "starttls": 587, "implicit": 465}

# Where this installation keeps its state: mirrors, embedded servers, secrets, mail files of the demo.
HOME = privatefiles.directory(Path(os.environ.get("SPEEDTRACK_HOME", BASE_DIR / "var")))
# The domain for which a proxy of ours answers with TLS, and the address under which people and runners reach the web
# server; links in mails begin with it.
DOMAIN = origins.read_host("SPEEDTRACK_DOMAIN", domain) if (domain := env_text("SPEEDTRACK_DOMAIN")) else ""
ORIGIN = origins.read_origin(
    "SPEEDTRACK_URL", env_text("SPEEDTRACK_URL") or (f"https://{DOMAIN}" if DOMAIN else "http://127.0.0.1:8000")
)
URL = str(ORIGIN)
# Where pages reach the streams of what changes (docs/operating.md), without a path; unset: they ask every few seconds.
LIVE_URL = env_text("SPEEDTRACK_LIVE_URL")
LIVE_URL = URL if LIVE_URL == "same" else str(origins.read_origin("SPEEDTRACK_LIVE_URL", LIVE_URL)) if LIVE_URL else ""

SECRET_KEY = env_secret("SECRET_KEY", HOME / "secret-key")
DEBUG = env_bool("DEBUG", False)
# The names under which it answers: without that of its own address each link would lead to an error.
ALLOWED_HOSTS = [ORIGIN.host] + [
    origins.read_allowed_host("ALLOWED_HOSTS", host) for host in env_words("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
]
CSRF_TRUSTED_ORIGINS = [URL]
# Whether all requests come through a proxy of ours, which sets X-Forwarded-Proto and X-Forwarded-For itself.
BEHIND_TLS_PROXY = env_bool("BEHIND_TLS_PROXY", False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS_PROXY else None
IS_HTTPS = ORIGIN.is_https
# For how long browsers refuse to come by http, once they came by https; 0: they may.
SECURE_HSTS_SECONDS = env_int("HSTS_SECONDS", 365 * 86_400) if IS_HTTPS else 0
if not 0 <= SECURE_HSTS_SECONDS <= MOST_DAYS * 86_400:
    raise ImproperlyConfigured(f"HSTS_SECONDS={SECURE_HSTS_SECONDS}: give a number of seconds, or 0 for none")
# Only the proxy knows who came by https. Programs inside of the network are let through by http: probes and runners.
SECURE_SSL_REDIRECT = IS_HTTPS and BEHIND_TLS_PROXY
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$", r"^api/runner/"]
SECURE_REFERRER_POLICY = SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
# HSTS for all names of the domain, and browsers' lists of it, are for the owner of the domain to decide.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
if IS_HTTPS:  # browsers take a cookie of such a name from this host only, and by https only
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sessionid", "__Host-csrftoken"

INSTALLED_APPS = [
    "speedtrack.web",  # first, as its commands and templates replace those of others
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "axes",
    "speedtrack.projects",
    "speedtrack.accounts.apps.AccountsConfig",
    "speedtrack.calls",
    "speedtrack.benchmarks",
    "speedtrack.runs",
    "speedtrack.alerts",
    "speedtrack.notices",
    "speedtrack.retention",
    "speedtrack.monitoring",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.github",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
]
# What runners' calls pass, of all below; one middleware sends the headers of four.
RUNNERS_MIDDLEWARE = [
    "speedtrack.web.requests.monitoring.Monitoring",
    "speedtrack.web.requests.middleware.head_like_get",
    "speedtrack.web.requests.middleware.headers_without_page",
    "speedtrack.web.requests.middleware.reasons_of_refusals",
    "speedtrack.web.requests.middleware.bounded_bodies",
    "django.middleware.common.CommonMiddleware",
    "speedtrack.web.requests.middleware.DatabaseAway",
]
MIDDLEWARE = [
    "speedtrack.web.requests.runners.OwnWayOfRunners",
    # It counts every answer.
    "speedtrack.web.requests.monitoring.Monitoring",
    "speedtrack.web.requests.middleware.head_like_get",
    # Headers first: they are on every answer, also on files of /static and on what a middleware below refuses.
    "django.middleware.security.SecurityMiddleware",
    "speedtrack.web.requests.middleware.content_security_policy",
    "speedtrack.web.requests.middleware.permissions_policy",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "speedtrack.web.requests.middleware.reasons_of_refusals",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "speedtrack.web.requests.compression.Compression",
    "speedtrack.web.requests.middleware.bounded_bodies",
    "speedtrack.web.requests.characters.StorableCharacters",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "speedtrack.web.requests.middleware.DatabaseAway",
    "speedtrack.api.v1.serving.headers.api_headers",
    "allauth.account.middleware.AccountMiddleware",
    "speedtrack.web.requests.sessions.seen",
    "speedtrack.web.requests.sessions.second_step_where_required",
    "axes.middleware.AxesMiddleware",
    "speedtrack.web.requests.reading.ReplicaRouting",  # last: it calls the views of pages
]
# The names of Django 6, so that its own middleware can take over.
SECURE_CSP = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": f"'self' {LIVE_URL}".strip(),
    "font-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
    "require-trusted-types-for": "'script'",  # no script may turn text into markup
    "trusted-types": "'none'",
}
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "speedtrack.web.requests.errors.forbidden"
ROOT_URLCONF = "speedtrack.urls"
WSGI_APPLICATION = "speedtrack.http.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "speedtrack.ground.texts.plaintemplates.PlainTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "speedtrack.web.requests.permissions.may",
            ]
        },
    }
]
LOGIN_URL = "/login/"
# Sessions that were begun in another way than through these end with an upgrade: only these are listed to people.
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = [
    "speedtrack.accounts.logins.hashing.Argon2",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",  # what stands in older databases; replaced at the next login
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "speedtrack.accounts.logins.hashing.LongestPassword"},
]
PASSWORD_RESET_TIMEOUT = 3600

# Logging in (docs/logins.md): who may make an account, who needs a second step, and what else one may log in with.
SIGNUP = env_choice("SIGNUP", "closed", "invited", "open", default="invited")
REQUIRE_MFA = env_choice("REQUIRE_MFA", "operators", "everybody", "nobody", default="nobody")
GITHUB_URL = origins.read_sealed_address("GITHUB_URL", env_text("GITHUB_URL") or "https://github.com")
GITHUB_ORGANISATION = os.environ.get("GITHUB_ORGANISATION", "")
OIDC_NAME = os.environ.get("OIDC_NAME", "OpenID Connect")
OIDC_ISSUER = origins.read_sealed_address("OIDC_ISSUER", issuer) if (issuer := env_text("OIDC_ISSUER")) else ""
OIDC_EMAIL_DOMAINS = [domain.lower().removeprefix("@") for domain in env_words("OIDC_EMAIL_DOMAINS")]
if not re.fullmatch(r"[A-Za-z0-9-]*", GITHUB_ORGANISATION):
    raise ImproperlyConfigured(f"GITHUB_ORGANISATION={GITHUB_ORGANISATION!r}: give its name, as in its address")
if wrong := [domain for domain in OIDC_EMAIL_DOMAINS if not re.fullmatch(r"[a-z0-9.-]+\.[a-z0-9-]+", domain)]:
    raise ImproperlyConfigured(f"OIDC_EMAIL_DOMAINS: {wrong[0]!r} is no domain: list domains such as example.org")

SOCIALACCOUNT_PROVIDERS: dict[str, dict[str, Any]] = {}
if env_together("GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"):
    SOCIALACCOUNT_PROVIDERS["github"] = {
        "APPS": [
            {"client_id": env_secret_text("GITHUB_CLIENT_ID"), "secret": env_secret_text("GITHUB_CLIENT_SECRET")},
        ],
        "SCOPE": ["user:email", *(["read:org"] if GITHUB_ORGANISATION else [])],
        "OAUTH_PKCE_ENABLED": True,
        **({} if GITHUB_URL == "https://github.com" else {"GITHUB_URL": GITHUB_URL}),
    }
elif GITHUB_ORGANISATION:
    raise ImproperlyConfigured("GITHUB_ORGANISATION: set GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET, too")
if env_together("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET"):
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": OIDC_NAME,
                "client_id": env_secret_text("OIDC_CLIENT_ID"),
                "secret": env_secret_text("OIDC_CLIENT_SECRET"),
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }
elif OIDC_EMAIL_DOMAINS:
    raise ImproperlyConfigured("OIDC_EMAIL_DOMAINS: set OIDC_ISSUER, OIDC_CLIENT_ID and OIDC_CLIENT_SECRET, too")
SOCIALACCOUNT_ADAPTER = "speedtrack.accounts.logins.adapters.SocialAdapter"
SOCIALACCOUNT_REQUESTS_TIMEOUT = 10
SOCIALACCOUNT_QUERY_EMAIL = True

ACCOUNT_ADAPTER = "speedtrack.accounts.logins.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "speedtrack.web.requests.login.LoginForm",
    "add_email": "speedtrack.web.accounts.forms.AddEmail",
    "change_password": "speedtrack.web.accounts.forms.ChangePassword",
    "set_password": "speedtrack.web.accounts.forms.SetPassword",
    "reset_password": "speedtrack.web.accounts.forms.ResetPassword",
    "reset_password_from_key": "speedtrack.web.accounts.forms.ResetPasswordKey",
    "reauthenticate": "speedtrack.web.accounts.forms.Reauthenticate",
    "signup": "speedtrack.web.accounts.forms.Signup",
}
SOCIALACCOUNT_FORMS = {"signup": "speedtrack.web.accounts.forms.ProviderSignup"}
MFA_FORMS = {
    "authenticate": "speedtrack.web.accounts.forms.StepAuthenticate",
    "reauthenticate": "speedtrack.web.accounts.forms.StepReauthenticate",
    "activate_totp": "speedtrack.web.accounts.forms.StepActivate",
}
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*" if SIGNUP == "open" else "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory" if SIGNUP == "open" else "optional"  # `accounts.stages` has the rule
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = "SpeedTrack: "
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # else anybody could have mails sent to anybody
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_USERNAME_BLACKLIST = ["somebody", "speedtrack"]  # what pages call those without an account
# Passwords are limited by django-axes, per user name and address; these are the limits of everything else. A code of
# the second step is tried by somebody who has the password, so its limit is per account.
ACCOUNT_RATE_LIMITS = {
    "login_failed": "5/300s/key",
    "signup": "10/h/ip",
    "reset_password": "20/h/ip,5/h/key",
    "first_owner": "20/m/ip",
}
MFA_ADAPTER = "speedtrack.accounts.logins.adapters.SecondStepAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = f"SpeedTrack {ORIGIN.hostname}"
MFA_TOTP_TOLERANCE = 1  # of 30 s: clocks of phones differ
MFA_ALLOW_UNVERIFIED_EMAIL = True  # an account with an address that is not proven has none to log in with
# These limits, and which codes were used, for all processes: a table, as any other cache is one more thing to secure.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "limits_of_logins",
        "OPTIONS": {"MAX_ENTRIES": 20_000},
    }
}
# Failed logins are counted for a user name together with an address: nobody can lock out somebody elsewhere.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_USERNAME_CALLABLE = "speedtrack.web.requests.login.name_of"
AXES_CLIENT_IP_CALLABLE = "speedtrack.http.clientaddress.client_address"
AXES_LOCKOUT_CALLABLE = "speedtrack.web.requests.login.too_many"
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"

# docs/scale.md: when a replica or a pool is worth it.
DATABASES = databases.from_environment()
# Pages are read from a replica that is behind by no more than this.
REPLICA_LAG_S = env_int("REPLICA_LAG_S", 10)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"

STATIC_URL = "/static/"
STATICFILES_DIRS = [d for d in [BASE_DIR / "frontend" / "dist"] if d.exists()]
WHITENOISE_USE_FINDERS = True  # from where they are made, which compresses them too: nothing is collected

# The broker carries nudges without meaning; losing it loses nothing (see ARCHITECTURE.md).
BROKER_URL = env_secret_text("BROKER_URL") or "redis://127.0.0.1:6379/0"
BROKER_CA_FILE = os.environ.get("BROKER_CA_FILE", "")
try:
    brokers.read(BROKER_URL, BROKER_CA_FILE)
except brokers.AddressError as e:
    raise ImproperlyConfigured(f"BROKER_URL: {e}") from None

# Mail (docs/notifications.md): an SMTP server, or files when EMAIL_FILES names a directory.
EMAIL_FILE_PATH = os.environ.get("EMAIL_FILES", "")
EMAIL_BACKEND = (
    "speedtrack.notices.mailfiles.MailFileBackend" if EMAIL_FILE_PATH else "speedtrack.notices.smtp.SmtpBackend"
)
EMAIL_HOST = origins.read_connected_host("EMAIL_HOST", env_text("EMAIL_HOST") or "localhost")
EMAIL_TLS = os.environ.get("EMAIL_TLS", "none")
if EMAIL_TLS not in EMAIL_PORTS:
    raise ImproperlyConfigured(f"EMAIL_TLS={EMAIL_TLS!r}: say starttls, implicit or none")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_TLS == "starttls", EMAIL_TLS == "implicit"
EMAIL_PORT = env_int("EMAIL_PORT", EMAIL_PORTS[EMAIL_TLS])
if not 0 < EMAIL_PORT < 65536:
    raise ImproperlyConfigured(f"EMAIL_PORT={EMAIL_PORT}: give a port from 1 to 65535")
EMAIL_CA_FILE = os.environ.get("EMAIL_CA_FILE", "")
if EMAIL_CA_FILE and not Path(EMAIL_CA_FILE).is_file():
    raise ImproperlyConfigured(f"EMAIL_CA_FILE={EMAIL_CA_FILE}: there is no such file")
EMAIL_HOST_USER = os.environ.get("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env_secret_text("EMAIL_HOST_PASSWORD")
if bool(EMAIL_HOST_USER) != bool(EMAIL_HOST_PASSWORD):
    raise ImproperlyConfigured("EMAIL_HOST_USER and EMAIL_HOST_PASSWORD: set both, or neither")
if EMAIL_HOST_USER and EMAIL_TLS == "none" and not is_loopback(EMAIL_HOST):
    raise ImproperlyConfigured("EMAIL_HOST_USER: the password would cross the network in clear: set EMAIL_TLS=starttls")
# One step (to connect, encrypt and log in; to hand over a mail) may take this long.
EMAIL_TIMEOUT = env_int("EMAIL_TIMEOUT", 20)
if not 1 <= EMAIL_TIMEOUT <= 120:
    raise ImproperlyConfigured(f"EMAIL_TIMEOUT={EMAIL_TIMEOUT}: give 1 to 120 seconds")
DEFAULT_FROM_EMAIL = origins.read_sender(
    "EMAIL_FROM", env_text("EMAIL_FROM") or f"SpeedTrack <speedtrack@{ORIGIN.mail_domain}>"
)

# Channels (docs/channels.md): the networks beside the public ones that they may call, and the ports.
CHANNEL_NETWORKS = env_networks("CHANNEL_NETWORKS")
CHANNEL_PORTS = env_ports("CHANNEL_PORTS", "80,443,8443,8448")
# What tokens and secrets in the database are encrypted with, with commas: the first one encrypts, all decrypt, and
# SECRET_KEY does both without any.
SPEEDTRACK_ENCRYPTION_KEYS = env_keys("SPEEDTRACK_ENCRYPTION_KEYS")

# Django has one limit for all paths; the middleware `bounded_bodies` keeps those of bodylimits.py.
DATA_UPLOAD_MAX_MEMORY_SIZE = bodylimits.LONGEST

# Which repositories may be tracked. Local paths only where the operator trusts everybody who may track.
ALLOW_LOCAL_REPOSITORIES = env_bool("ALLOW_LOCAL_REPOSITORIES", False)
# Hosts, with a port if it is not the usual one, whose repositories may be tracked; * stands for any. And the networks
# beside the public ones in which they may be.
GIT_HOSTS = env_hosts("GIT_HOSTS", "github.com,gitlab.com,codeberg.org,bitbucket.org")
GIT_NETWORKS = env_networks("GIT_NETWORKS")
MIRRORS = HOME / "mirrors"
GIT_TIMEOUT_S = env_int("GIT_TIMEOUT_S", 900)
# What one fetch may bring at most.
GIT_MOST_MB = env_int("GIT_MOST_MB", 10_000)
if GIT_MOST_MB < 1:
    raise ImproperlyConfigured(f"GIT_MOST_MB={GIT_MOST_MB}: give 1 or more")
SUITES = Path(os.environ.get("SUITES", BASE_DIR / "suites"))
POLL_EVERY_S = env_int("POLL_EVERY_S", 300)
# How often a machine measures a commit against itself, when it has nothing else to do; 0: never by itself.
AA_EVERY_DAYS = env_int("AA_EVERY_DAYS", 7)
# After how many measured commits an idle machine compares the newest with the one so many before it; 0: never.
SWEEP_EVERY = env_int("SWEEP_EVERY", 20)
# How many commits without some of its hunks may be built for a commit that an alert names; 0: none.
HUNK_BUILDS = env_int("HUNK_BUILDS", 24)

# May anybody send results of public projects to Codespeed's addresses (/result/add/)? Only for machines that are
# registered; without this, senders need a token.
CODESPEED_ANONYMOUS = env_bool("CODESPEED_ANONYMOUS", False)

# How many requests of the API a minute brings (docs/operating.md): for a token, or a person who is logged in, and for
# an address without a token; 0: any number.
API_RATE = env_int("API_RATE", 1200)
API_RATE_ANONYMOUS = env_int("API_RATE_ANONYMOUS", 300)
# How many calls of one webhook a minute brings; 0: any number.
HOOK_RATE = env_int("HOOK_RATE", 600)
if min(API_RATE, API_RATE_ANONYMOUS, HOOK_RATE) < 0:
    raise ImproperlyConfigured("API_RATE, API_RATE_ANONYMOUS, HOOK_RATE: give requests per minute, or 0 for any number")

# A run whose runner is silent for this long is taken from it; after this many attempts it fails.
LEASE_S = env_int("LEASE_S", 60)
MAX_ATTEMPTS = env_int("MAX_ATTEMPTS", 3)

# For how many days each is kept (docs/operating.md); 0: for ever. And the hour of the day, in UTC, after which what is
# older is deleted, once a day; -1: only by hand.
KEEP_DAYS = {
    "documents": env_days("KEEP_DOCUMENTS_DAYS", 90),
    "samples": env_days("KEEP_SAMPLES_DAYS", 730),
    "logs": env_days("KEEP_LOGS_DAYS", 90),
    "profiles": env_days("KEEP_PROFILES_DAYS", 365),
    "canaries": env_days("KEEP_CANARIES_DAYS", 90),
    "events": env_days("KEEP_EVENTS_DAYS", 365),
    "deliveries": env_days("KEEP_DELIVERIES_DAYS", 30),
    "audit": env_days("KEEP_AUDIT_DAYS", 0),
}
PRUNE_HOUR = env_int("PRUNE_HOUR", 3)
if not -1 <= PRUNE_HOUR <= 23:
    raise ImproperlyConfigured(f"PRUNE_HOUR={PRUNE_HOUR}: give an hour from 0 to 23, or -1 for never")

# What a machine measures next (docs/methodology.md): the part of its time that suspicions get while the history waits,
# too, and how long the head of a branch waits at most before it goes next.
SETTLING_PERCENT = env_int("SETTLING_PERCENT", 50)
if not 1 <= SETTLING_PERCENT <= 99:
    raise ImproperlyConfigured(f"SETTLING_PERCENT={SETTLING_PERCENT}: give 1 to 99")
HEAD_WAIT_S = env_int("HEAD_WAIT_S", 300)

# The canary of a machine (docs/methodology.md): measured this often while there is work; whether the first head that a
# machine measures becomes its canary by itself; and who is told of a machine whose canary moved.
CANARY_EVERY_S = env_int("CANARY_EVERY_S", 2 * 3600)
if CANARY_EVERY_S < 60:
    raise ImproperlyConfigured(f"CANARY_EVERY_S={CANARY_EVERY_S}: give 60 seconds or more")
CANARY_AUTO = env_bool("CANARY_AUTO", True)
OPERATORS = env_words("OPERATORS")

# What watches this installation (docs/operating.md): who may read its metrics from another host, below which free space
# it is not ready, and whether each request has a line in the log.
METRICS_TOKEN = env_secret_text("METRICS_TOKEN")
if METRICS_TOKEN and len(METRICS_TOKEN) < SHORTEST_KEY:
    raise ImproperlyConfigured(f"METRICS_TOKEN has {SHORTEST_KEY} characters at least: `openssl rand -hex 32`")
LEAST_FREE_MB = env_int("LEAST_FREE_MB", 500)
LOG_FORMAT = os.environ.get("SPEEDTRACK_LOG_FORMAT", "line")
if LOG_FORMAT not in ("line", "json"):
    raise ImproperlyConfigured(f"SPEEDTRACK_LOG_FORMAT={LOG_FORMAT!r}: say line or json")
if missing := traces.lack():
    raise ImproperlyConfigured(missing)
ACCESS_LOG = env_bool("ACCESS_LOG", LOG_FORMAT == "json")

LOGGING = logs.configuration(
    LOG_FORMAT,
    os.environ.get("LOG_LEVEL", "INFO"),
    {
        "httpx": "WARNING",
        "axes": "WARNING",
        "waitress": "WARNING",
        "waitress.queue": "ERROR",  # requests wait for a thread in every burst
    },
)
