"""Where notifications may go, as a table."""

from __future__ import annotations

import pytest

from stopgo.actors.common.post_address import LONGEST_URL, BadAddress, Target, is_allowed, reach_of, target_of


@pytest.mark.parametrize(
    ("url", "target", "header"),
    [
        ("https://hooks.example", Target("https", "hooks.example", 443, "/"), "hooks.example"),
        ("HTTP://Hooks.Example:80/a?b=c#d", Target("http", "hooks.example", 80, "/a?b=c"), "hooks.example"),
        ("http://h.example:8080/a/", Target("http", "h.example", 8080, "/a/"), "h.example:8080"),
        ("https://10.0.0.1/x", Target("https", "10.0.0.1", 443, "/x"), "10.0.0.1"),
        ("http://[2001:DB8::1]:81/", Target("http", "2001:db8::1", 81, "/"), "[2001:db8::1]:81"),
    ],
)
def test_an_address_is_read(url: str, target: Target, header: str) -> None:
    assert target_of(url) == target
    assert target.host_header == header


def test_an_ip_address_takes_the_place_of_the_name() -> None:
    target = target_of("https://hooks.example/a?b=c")
    assert target.at("192.0.2.1") == "https://192.0.2.1:443/a?b=c"
    assert target.at("2001:db8::1") == "https://[2001:db8::1]:443/a?b=c"
    assert target.origin == "https://hooks.example"


@pytest.mark.parametrize(
    ("url", "mistake"),
    [
        ("ftp://hooks.example/", "must begin with"),
        ("//hooks.example/", "must begin with"),
        ("hooks.example/a", "must begin with"),
        ("file:///etc/passwd", "must begin with"),
        ("https:///a", "must name a host"),
        ("https://:80/a", "must name a host"),
        ("https://hooks.example:0/", "must name a host"),
        ("https://-a.example/", "must name a host"),
        ("https://a..%00/", "must name a host"),
        ("https://[fe80::1%25eth0]/", "must name a host"),
        ("https://[::1/", "is not a URL"),
        ("https://hooks.example:99999/", "is not a URL"),
        ("https://hooks.example:x/", "is not a URL"),
        ("https://user@hooks.example/", "must not name a user"),
        ("https://user:word@hooks.example/", "must not name a user"),
        ("https://hooks.example\\@127.0.0.1/", "has characters"),
        ("https://hooks.example/\r\nX: y", "has characters"),
        ("https://hooks.example/a b", "has characters"),
        ("https://hööks.example/", "has characters"),
        ("", "has characters"),
        ("https://hooks.example/" + "a" * LONGEST_URL, "is longer"),
    ],
)
def test_an_address_is_refused(url: str, mistake: str) -> None:
    with pytest.raises(BadAddress, match=mistake):
        target_of(url)


@pytest.mark.parametrize(
    ("address", "reach"),
    [
        ("8.8.8.8", "public"),
        ("2606:4700::1111", "public"),
        ("::ffff:8.8.8.8", "public"),
        ("64:ff9b::8.8.8.8", "public"),
        ("2002:808:808::1", "public"),
        ("127.0.0.1", "private"),
        ("127.255.255.254", "private"),
        ("::1", "private"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("192.0.2.1", "private"),
        ("198.18.0.1", "private"),
        ("0.1.2.3", "private"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("2001:db8::1", "private"),
        ("::ffff:127.0.0.1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::127.0.0.1", "private"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:7f00:1::1", "private"),
        ("2002:a00:1::1", "private"),
        ("0.0.0.0", "never"),
        ("::", "never"),
        ("::ffff:0.0.0.0", "never"),
        ("169.254.169.254", "never"),
        ("::ffff:169.254.169.254", "never"),
        ("64:ff9b::169.254.169.254", "never"),
        ("2002:a9fe:a9fe::1", "never"),
        ("fe80::1", "never"),
        ("fe80::1%eth0", "never"),
        ("fec0::1", "never"),
        ("224.0.0.1", "never"),
        ("ff02::1", "never"),
        ("240.0.0.1", "never"),
        ("255.255.255.255", "never"),
        ("::127.0.0.1", "never"),
        ("64:ff9b:1::a00:1", "never"),
        ("64:ff9b:1::a9fe:a9fe", "never"),
        ("64:ff9b:1:a9fe:a9:fe00::", "never"),  # RFC 6052, section 2.2: the address after a prefix of 48 bits
        ("2001:0:a00:1::1", "never"),
        # RFC 5214, section 6.1
        ("2001:db8::5efe:169.254.169.254", "never"),
        ("2001:db8::200:5efe:169.254.169.254", "never"),
        ("fd12::5efe:8.8.8.8", "private"),
        # docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html, EKS Pod Identity
        ("fd00:ec2::254", "never"),
        ("fd00:ec2::23", "never"),
        ("169.254.170.2", "never"),
        ("169.254.170.23", "never"),
        # cloud.google.com/compute/docs/metadata/querying-metadata
        ("fd20:ce::254", "never"),
        # www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
        ("100.100.100.200", "never"),
        ("::ffff:100.100.100.200", "never"),
        ("64:ff9b::100.100.100.200", "never"),
        ("2002:6464:64c8::1", "never"),
        # learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
        ("168.63.129.16", "never"),
        ("::ffff:168.63.129.16", "never"),
        ("192.0.0.192", "never"),
        ("fd00:c1::a9fe:a9fe", "never"),
        ("fd00:42::42", "never"),
        ("fd00:a9fe:a9fe::1", "never"),
        # neighbours of these stay what they are
        ("100.100.100.201", "private"),
        ("168.63.129.17", "public"),
        ("fd00:ec3::1", "private"),
    ],
)
def test_whose_an_address_is(address: str, reach: str) -> None:
    assert reach_of(address) == reach
    assert is_allowed(address, to_private=False) == (reach == "public")
    assert is_allowed(address, to_private=True) == (reach != "never")
