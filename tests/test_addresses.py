"""Which addresses may be connected to: hazard K1, form by form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate.addresses import is_permitted, network, place

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::808:808"]
INSIDE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
]


@pytest.mark.req("K1")
@pytest.mark.parametrize("address", PUBLIC)
def test_k1_a_public_address_is_permitted(address):
    assert is_permitted(address)


@pytest.mark.req("K1")
@pytest.mark.parametrize("address", [*INSIDE, "localhost", "", "2130706433", "0x7f.1", "127.1"])
def test_k1_every_other_address_is_refused(address):
    assert not is_permitted(address)


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("address", "listed", "permitted"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("127.0.0.2", "127.0.0.1", False),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("64:ff9b::a00:1", "10.0.0.0/8", True),
        ("::1", "::1", True),
        ("::1", "127.0.0.0/8", False),
        ("10.0.0.1", "::/0", False),
        ("fe80::1%eth0", "fe80::/10", True),
    ],
)
def test_k1_a_listed_address_is_permitted_and_no_other(address, listed, permitted):
    assert is_permitted(address, [network(listed)]) is permitted


@pytest.mark.parametrize("text", ["10.0.0.1/8", "host", "10.0.0.0/33", "", "10.0.0.0-10.0.0.9"])
def test_a_network_is_an_address_and_perhaps_a_length(text):
    with pytest.raises(ValueError, match="must be an IP address, or a network"):
        network(text)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://example.org", ("https", "example.org", 443, "/")),
        ("HTTP://Example.ORG:8080/A?b=c", ("http", "example.org", 8080, "/A?b=c")),
        ("https://example.org?x", ("https", "example.org", 443, "/?x")),
        ("https://xn--bcher-kva.example./", ("https", "xn--bcher-kva.example.", 443, "/")),
        ("http://8.8.8.8/", ("http", "8.8.8.8", 80, "/")),
        ("http://[2606:4700:0:0::1111]:1/x@y:z", ("http", "2606:4700::1111", 1, "/x@y:z")),
        ("http://[::ffff:127.0.0.1]/", ("http", "::ffff:127.0.0.1", 80, "/")),
    ],
)
def test_a_url_has_four_parts(url, parts):
    scheme, host, port, target = place(url)
    assert (scheme, host.replace("7f00:1", "127.0.0.1"), port, target) == parts


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("file:///etc/passwd", "begins with https:// or http://"),
        ("gopher://example.org/", "begins with https:// or http://"),
        ("ftp://example.org/", "begins with https:// or http://"),
        ("//example.org/", "begins with https:// or http://"),
        ("example.org", "begins with https:// or http://"),
        ("", "begins with https:// or http://"),
        ("http:///x", "begins with https:// or http://"),
        ("http://user@example.org/", "user or password"),
        ("http://user:pass@example.org/", "user or password"),
        ("http://example.org@127.0.0.1/", "user or password"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f.1/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://017700000001/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://127.0.0.1./", "four decimal numbers"),
        ("http://example.0x/", "four decimal numbers"),
        ("http://[fe80::1%25eth0]/", "begins with"),
        ("http://[::1/", "begins with"),
        ("http://[1.2.3.4]/", "IPv6 address"),
        ("http://[:::]/", "IPv6 address"),
        ("http://example.org:0/", "port"),
        ("http://example.org:65536/", "port"),
        ("http://example.org:8o/", "begins with"),
        ("http://exa mple.org/", "plain ASCII"),
        ("http://example.org\\@127.0.0.1/", "plain ASCII"),
        ("http://example.org/\n", "plain ASCII"),
        ("http://\u24d4xample.org/", "plain ASCII"),
        ("http://127\u30020\u30020\u30021/", "plain ASCII"),
        ("http://127%2e0.0.1/", "four decimal numbers"),
        ("http://local%68ost/", "letters, digits"),
        ("http://-x.example/", "letters, digits"),
        ("http://a..b/", "letters, digits"),
        ("http://example.org/#x", "fragment"),
        ("http://example.org/" + "x" * 2000, "plain ASCII"),
    ],
)
def test_k1_every_other_form_of_a_url_is_refused_and_not_repeated(url, rule):
    with pytest.raises(ValueError, match=rule) as refused:
        place(url)
    assert "127" not in str(refused.value)
    assert "pass@" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "address", "authority", "by_address"),
    [
        ("https://a.example/x", "8.8.8.8", "a.example", "https://8.8.8.8:443/x"),
        ("http://a.example:81/x", "::1", "a.example:81", "http://[::1]:81/x"),
        ("http://[::1]/", "::1", "[::1]", "http://[::1]:80/"),
    ],
)
def test_a_place_is_reached_by_an_address_and_keeps_its_name(url, address, authority, by_address):
    found = place(url)
    assert (found.authority, found.at(address)) == (authority, by_address)


@given(st.text(max_size=60), st.sampled_from(["", "http://", "https://[", "http://a@"]))
def test_any_text_is_a_place_or_breaks_a_rule(text, start):
    try:
        found = place(start + text)
    except ValueError as rule:
        assert str(rule).startswith("must ")  # noqa: PT017  a property: either is right
    else:
        assert found.host
        assert "@" not in found.host
