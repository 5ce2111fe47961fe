"""The way to a cloud of OpenStack, by a name in the clouds.yaml of who asks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import openstack
from keystoneauth1 import exceptions as auth
from openstack import exceptions

from ...errors import Fails, Refused, failing
from . import faults


@contextlib.contextmanager
def telling(module: Fails) -> Iterator[None]:
    """A cloud that says no, or nothing, ends the module with the cause and the next step."""
    with failing(module):
        try:
            yield
        except (auth.ConnectFailure, auth.DiscoveryFailure) as error:
            raise Refused(
                "the services of the cloud answer",
                given=error.message or type(error).__name__,
                then="look whether the cloud runs, then give the same command again",
            ) from None
        except (exceptions.SDKException, auth.ClientException) as error:
            raise faults.refused("the cloud", str(error)) from None


def connect(name: str) -> Any:
    """An `openstack.connection.Connection` whose credentials the cloud has accepted.

    Raises Refused where there is no cloud of that name, it does not answer, or it says no.
    """
    example = "openstack_cloud: mycloud, which ~/.config/openstack/clouds.yaml describes"
    try:
        cloud = openstack.connect(cloud=name)
        cloud.session.get_token()
    except auth.Unauthorized as error:
        raise Refused(
            "the cloud accepts the credentials that clouds.yaml has for it",
            example=example,
            given=f"{name} answers: {error.message}",
            then="put the right name and password, or an application credential, into clouds.yaml",
        ) from None
    except (auth.ConnectFailure, auth.DiscoveryFailure) as error:
        raise Refused(
            "the identity service of the cloud answers",
            given=f"{name}: {error.message or type(error).__name__}",
            then="look at auth_url in clouds.yaml, and whether the cloud runs",
        ) from None
    except exceptions.ConfigException as error:
        raise Refused(
            "clouds.yaml describes the cloud by its name",
            example=example,
            given=f"{name}: {error}",
            then="name one that it describes, or give the file: openstack_clouds: PATH",
        ) from None
    return cloud
