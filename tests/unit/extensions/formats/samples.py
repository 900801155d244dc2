"""A few lines of each format, with made-up names; the rules that its reader makes of them, and its warnings.

Rules and warnings are as ``support.readings.read_rules`` gives them.
"""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    text: str
    rules: list[str]
    warnings: list[str]


SAMPLES = {
    "yaml": Sample(
        ("rules:\n- a.example\n- b.example\n"),
        ["2:a.example/", "3:b.example/"],
        [],
    ),
    "hashed-uris": Sample(
        ("hashed:sha1=0000000000000000000000000000000000000000\nhashed:md5=11111111111111111111111111111111\n"),
        ["1:hashed:sha1=0000000000000000000000000000000000000000", "2:hashed:md5=11111111111111111111111111111111"],
        [],
    ),
    "sha256": Sample(
        ("61626364\nabababababababababababababababababababababababababababababababab\n"),
        ["1:sha256:61626364", "2:sha256:abababababababababababababababababababababababababababababababab"],
        [],
    ),
    "hosts": Sample(
        ("# a hosts file\n127.0.0.1 localhost\n0.0.0.0 a.example\n0.0.0.0\tb.example\n::1 ip6-localhost\n"),
        ["3:a.example/", "4:b.example/"],
        [],
    ),
    "addresses": Sample(
        ("192.0.2.1\n198.51.100.0/24 ; SBL1\n203.0.113.4 - 203.0.113.9\n2001:db8::/32\n"),
        ["1:192.0.2.1/32", "2:198.51.100.0/24", "3:203.0.113.4/30", "3:203.0.113.8/31", "4:2001:db8::/32"],
        [],
    ),
    "urls": Sample(
        ("http://a.example/x\nhttps://b.example/y?z=1\nc.example/d\n"),
        ["1:a.example/x", "2:b.example/y?z=1", "3:c.example/d"],
        [],
    ),
    "domains": Sample(
        ("a.example\n.b.example\n*.c.example\nbücher.example\n"),
        ["1:a.example/", "2:b.example/", "3:c.example/", "4:xn--bcher-kva.example/"],
        [],
    ),
    "squidguard-urls": Sample(
        ("a.example/x\nb.example/y/\n"),
        ["1:a.example/x", "1:a.example/x/", "2:b.example/y/"],
        [],
    ),
    "adblock": Sample(
        ("[Adblock Plus 2.0]\n! Title: ads\n||a.example^\n@@||b.example^\n/banner/*$script\n"),
        ["3:a.example/", "+4:@@||b.example^", "5:/banner/*$script"],
        [],
    ),
    "adblock-hosts": Sample(
        ("! uBlock Origin filters\na.example\n0.0.0.0 b.example\n||c.example^\n"),
        ["2:a.example/", "3:b.example/", "4:c.example/"],
        [],
    ),
    "adblock-dns": Sample(
        ("! Title: AdGuard DNS filter\n||a.example^\n@@||b.a.example^|\n/^ads[0-9]/\n"),
        ["2:a.example/", "+3:@@||b.a.example^|", "4:/^ads[0-9]/"],
        [],
    ),
    "chromium": Sample(
        ("a.example\nb.example/x\n"),
        ["1:a.example/", "2:b.example/x", "2:b.example/x/"],
        [],
    ),
    "dnsmasq": Sample(
        ("# ads\naddress=/a.example/0.0.0.0\naddress=/b.example/\nlocal=/c.example/\nserver=/d.c.example/#\n"),
        ["2:a.example/", "3:b.example/", "4:c.example/", "+5:@@||d.c.example^"],
        [],
    ),
    "rpz": Sample(
        ("$TTL 300\n@ IN SOA a. b. 1 2 3 4 5\n@ IN NS a.\na.example CNAME .\n*.a.example CNAME .\n"),
        ["4:a.example/", "5:a.example/"],
        [],
    ),
    "csv": Sample(
        ("id,url\n1,http://a.example/x\n2,http://b.example/\n"),
        ["2:a.example/x", "3:b.example/"],
        [],
    ),
    "tsv": Sample(
        ("name\tdomain\tsince\nx\ta.example\t2020\ny\tb.example\t2021\n"),
        ["2:a.example/", "3:b.example/"],
        [],
    ),
    "unbound": Sample(
        (
            "server:\n"
            'local-zone: "a.example" always_nxdomain\n'
            'local-zone: "b.example." redirect\n'
            'local-data: "b.example. A 0.0.0.0"\n'
            'local-zone: "c.a.example" transparent\n'
        ),
        ["2:a.example/", "4:b.example/", "+5:@@||c.a.example^"],
        [],
    ),
    "bind-zones": Sample(
        (
            "// malware\n"
            'zone "a.example" {type master; file "null.zone.file";};\n'
            'zone "b.example" IN {\n'
            "    type primary;\n"
            '    file "null.zone.file";\n'
            "};\n"
            'zone "c.example" { type forward; };\n'
        ),
        ["2:a.example/", "3:b.example/"],
        ["7: zone \"c.example\" { type forward; };: left out: a zone of the type 'forward'"],
    ),
    "smartdns": Sample(
        (
            "address /a.example/#\n"
            "address /*.b.example/#\n"
            "address /c.a.example/-\n"
            "domain-rules /d.example/ -address # -no-cache\n"
            "nameserver /e.example/home\n"
        ),
        ["1:a.example/", "2:b.example/", "+3:@@||c.a.example^", "4:d.example/"],
        ["5: nameserver /e.example/home: left out: a directive 'nameserver'"],
    ),
    "dnscrypt": Sample(
        ("# blocked names\n*.a.example\nads.*\n=b.example\n*tracker*\nads[0-9]*.c.example\nd.example @work\n"),
        ["2:a.example/", "3:|ads.*|", "4:b.example/", "5:|*tracker*|", "6:/^ads[0-9].*\\.c\\.example$/"],
        ["7: d.example @work: left out: an entry with times"],
    ),
    "pihole-regex": Sample(
        (
            "(\\.|^)a\\.example$\n"
            "^ad([sx]|system)[0-9]*\\.\n"
            "^[^.[:space:]]+\\.ads\\.example$\n"
            "^b\\.example$;reply=NXDOMAIN\n"
            "^c\\.example$;querytype=A\n"
        ),
        ["1:a.example/", "2:/^ad([sx]|system)[0-9]*\\./", "3:/^[^. \\t]+\\.ads\\.example$/", "4:b.example/"],
        ["5: ^c\\.example$;querytype=A: left out: a regular expression with ;querytype"],
    ),
    "blocky": Sample(
        ("# ads\na.example\n*.b.example\n/^ads[0-9]+\\./\n/^banner\\./\n/track/\n"),
        ["2:a.example/", "3:b.example/", "4:/^ads[0-9]+\\./", "5:/^banner\\./", "6:/track/"],
        [],
    ),
    "mikrotik": Sample(
        (
            "/ip dns static\n"
            "add address=0.0.0.0 name=a.example\n"
            'add name="b.example" type=NXDOMAIN\n'
            'add regexp="^ads[0-9]+\\\\." type=NXDOMAIN\n'
            "/ip firewall address-list add list=bad address=192.0.2.0/24\n"
            "add address=192.0.2.9 name=nas.example\n"
        ),
        ["2:a.example/", "3:b.example/", "4:/^ads[0-9]+\\./", "5:192.0.2.0/24"],
        ["6: add address=192.0.2.9 name=nas.example: left out: data that is answered instead"],
    ),
    "squid-acl": Sample(
        (
            "acl ads dstdomain .a.example b.example\n"
            "acl net dst 192.0.2.0/255.255.255.0\n"
            "acl pages url_regex -i ^https?://[^/]*/banner/\n"
            "acl ok dstdomain .c.example\n"
            "http_access deny ads\n"
            "http_access deny net\n"
            "http_access deny pages\n"
            "http_access allow ok\n"
        ),
        ["1:a.example/", "1:b.example/", "2:192.0.2.0/24", "3:/^https?://[^/]*/banner//"],
        ["4: acl ok dstdomain .c.example: left out: an access list that nothing denies by itself"],
    ),
    "privoxy": Sample(
        (
            "{+block{Ads}}\n"
            ".a.example\n"
            "ads*.b.example\n"
            "c.example/banners/\n"
            "/.*/adserver/\n"
            "{ -block }\n"
            "good.a.example\n"
            "{+filter{x}}\n"
            "d.example\n"
        ),
        [
            "2:a.example/",
            "3:/^https?:\\/\\/ads[^.\\/]*\\.b\\.example(?::[0-9]+)?\\//",
            "4:c.example/banners/",
            "5:/^https?:\\/\\/[^\\/]*\\/.*\\/adserver\\//",
            "+7:@@||good.a.example^",
        ],
        ["9: d.example: left out: a section without +block"],
    ),
    "pac": Sample(
        (
            "function FindProxyForURL(url, host) {\n"
            '  if (dnsDomainIs(host, ".a.example")\n'
            '      || shExpMatch(host, "ads*.b.example") || shExpMatch(url, "*/banner/*"))\n'
            '    return "PROXY 127.0.0.1:9";\n'
            '  if (isInNet(host, "10.0.0.0", "255.0.0.0")) { return "DIRECT"; }\n'
            '  return "DIRECT";\n'
            "}\n"
        ),
        ["2:a.example/", "3:|ads*.b.example|", "3:*/banner/*"],
        ["5: if: left out: a condition that does not lead to a proxy that is none"],
    ),
    "clash": Sample(
        ("# ads\npayload:\n  - '+.a.example'\n  - '.b.example'\n  - DOMAIN-KEYWORD,tracker\n  - 192.0.2.0/24\n"),
        ["3:a.example/", "4:b.example/", "5:tracker", "6:192.0.2.0/24"],
        [],
    ),
    "clash-text": Sample(
        ("+.a.example\n+.b.example\nc.example\n198.51.100.0/24\n*.d.example\n"),
        ["1:a.example/", "2:b.example/", "3:c.example/", "4:198.51.100.0/24", "5:d.example/"],
        [],
    ),
    "surge": Sample(
        (
            "# ads\n"
            "DOMAIN,a.example\n"
            "DOMAIN-SUFFIX,b.example,REJECT\n"
            "DOMAIN-KEYWORD,tracker\n"
            "IP-CIDR,192.0.2.0/24,no-resolve\n"
            "DOMAIN-SUFFIX,c.example,DIRECT\n"
            "PROCESS-NAME,game\n"
        ),
        ["2:a.example/", "3:b.example/", "4:tracker", "5:192.0.2.0/24"],
        [
            "6: DOMAIN-SUFFIX,c.example,DIRECT: left out: a rule whose policy is 'DIRECT': it blocks nothing",
            "7: PROCESS-NAME,game: left out: a rule of the type 'PROCESS-NAME'",
        ],
    ),
    "quantumult": Sample(
        (
            "HOST,a.example,reject\n"
            "HOST-SUFFIX,b.example,reject\n"
            "host-keyword, tracker, reject\n"
            "IP6-CIDR,2001:db8::/32,reject\n"
            "host-suffix, c.example, direct\n"
        ),
        ["1:a.example/", "2:b.example/", "3:tracker", "4:2001:db8::/32"],
        ["5: host-suffix, c.example, direct: left out: a rule whose policy is 'direct': it blocks nothing"],
    ),
    "v2fly": Sample(
        ("domain:a.example\nfull:b.example @ads\nkeyword:tracker\nregexp:^ads[0-9]+\\.\nc.example\ninclude:others\n"),
        ["1:a.example/", "2:b.example/", "3:tracker", "4:/^ads[0-9]+\\./", "5:c.example/"],
        ["6: others: left out: a list that it includes: name it in the policy"],
    ),
    "public-suffixes": Sample(
        (
            "// the list of publicsuffix.org\n"
            "// ===BEGIN ICANN DOMAINS===\n"
            "co.uk\n"
            "// ===END ICANN DOMAINS===\n"
            "// ===BEGIN PRIVATE DOMAINS===\n"
            "a.example\n"
            "*.b.example // its customers\n"
            "!www.b.example\n"
            "// ===END PRIVATE DOMAINS===\n"
            "d.example\n"
        ),
        ["6:a.example/", "7:b.example/"],
        ["8: !www.b.example: left out: nobody else has a site below this name"],
    ),
    "ranked-domains": Sample(
        ("1,a.example\n2,b.example\n3,c.example\n"),
        ["1:a.example/", "2:b.example/", "3:c.example/"],
        [],
    ),
    "file-hashes": Sample(
        (f'# MalwareBazaar\n"2026-01-01 10:00:00", "{"ab" * 32}", "{"cd" * 16}", "{"ef" * 20}", "a", "b.exe"\n')
        + f"{'12' * 16}:68:Eicar-Test-Signature\n{'34' * 20}:*:Test.C:73\n",
        [
            f"2:sha256.files.invalid/{'ab' * 32}",
            f"3:md5.files.invalid/{'12' * 16}",
            f"4:sha1.files.invalid/{'34' * 20}",
        ],
        [],
    ),
    "address-counts": Sample(
        ("# IP and lists\n192.0.2.1\t7\n198.51.100.2\t3\n2001:db8::1\t1\n"),
        ["2:192.0.2.1/32", "3:198.51.100.2/32", "4:2001:db8::1/128"],
        [],
    ),
    "address-ports": Sample(
        ("192.0.2.1:443\n198.51.100.2:8080\n[2001:db8::1]:80\n"),
        ["1:192.0.2.1/32", "2:198.51.100.2/32", "3:2001:db8::1/128"],
        [],
    ),
    "little-snitch": Sample(
        (
            "{\n"
            ' "name": "ads",\n'
            ' "denied-remote-domains": ["a.example",\n'
            '  "b.example"],\n'
            ' "denied-remote-addresses": ["192.0.2.1"],\n'
            ' "rules": [\n'
            '  {"action": "deny", "process": "any", "remote-hosts": ["c.example"]},\n'
            '  {"action": "deny", "process": "/bin/game", "remote-domains": "d.example"}\n'
            " ]\n"
            "}\n"
        ),
        ["3:a.example/", "4:b.example/", "5:192.0.2.1/32", "7:c.example/"],
        ["8: rule: left out: a rule for one program"],
    ),
    "sing-box": Sample(
        (
            "{\n"
            ' "version": 2,\n'
            ' "rules": [\n'
            '  {"domain": ["a.example"], "domain_suffix": [".b.example"],\n'
            '   "domain_keyword": "tracker", "domain_regex": ["^ads[0-9]+"], "ip_cidr": ["192.0.2.0/24"]},\n'
            '  {"domain": ["c.example"], "port": [80]}\n'
            " ]\n"
            "}\n"
        ),
        ["4:a.example/", "4:b.example/", "5:tracker", "5:/^ads[0-9]+/", "5:192.0.2.0/24"],
        ["6: rule: left out: a rule with 'port'"],
    ),
    "control-d": Sample(
        (
            '{"group": {"group": "Ads", "action": {"do": 0, "status": 1}},\n'
            ' "rules": [\n'
            '  {"PK": "a.example", "action": {"do": 0, "status": 1}},\n'
            '  {"PK": "*.b.example", "action": {"do": 0, "status": 1}},\n'
            '  {"PK": "c.a.example", "action": {"do": 1, "status": 1}},\n'
            '  {"PK": "d.example", "action": {"do": 0, "status": 0}}\n'
            " ]}\n"
        ),
        ["3:a.example/", "4:b.example/", "+5:c.a.example/"],
        ["6: d.example: left out: a rule that is off"],
    ),
    "chromium-policy": Sample(
        ('{\n "URLBlocklist": ["a.example",\n  "b.example/x", "*"],\n "URLAllowlist": ["c.a.example"]\n}\n'),
        ["2:a.example/", "3:b.example/x", "3:b.example/x/", "+4:c.a.example/"],
        ["3: *: left out: no rule fits every host"],
    ),
    "services": Sample(
        (
            '{"blocked_services": [\n'
            ' {"id": "a", "name": "A", "rules": ["||a.example^",\n'
            '  "||b.example^"]},\n'
            ' {"id": "c", "rules": ["/^c[0-9]/"]}\n'
            "]}\n"
        ),
        ["2:a.example/", "3:b.example/"],
        ["4: /^c[0-9]/: left out: more than a whole host"],
    ),
    "phishtank": Sample(
        (
            "[\n"
            ' {"phish_id": "1", "url": "http://a.example/x", "online": "yes"},\n'
            ' {"phish_id": "2", "url": "http:\\/\\/b.example\\/", "online": "yes"}\n'
            "]\n"
        ),
        ["2:a.example/x", "3:b.example/"],
        [],
    ),
    "urlhaus": Sample(
        (
            '{"7": [{"url": "http://a.example/x.exe", "url_status": "online"}],\n'
            ' "8": [{"url": "http://b.example/y", "url_status": "offline"}]}\n'
        ),
        ["1:a.example/x.exe", "2:b.example/y"],
        [],
    ),
    "threatfox": Sample(
        (
            '{"7": [{"ioc_value": "a.example", "ioc_type": "domain"}],\n'
            ' "8": [{"ioc_value": "192.0.2.1:443", "ioc_type": "ip:port"}],\n'
            ' "9": [{"ioc_value": "00ff", "ioc_type": "md5_hash"}]}\n'
        ),
        ["1:a.example/", "2:192.0.2.1/32"],
        ["3: 00ff: left out: an indicator of the type 'md5_hash'"],
    ),
    "feodo": Sample(
        (
            "[\n"
            ' {"ip_address": "192.0.2.1", "port": 443, "hostname": null},\n'
            ' {"ip_address": "198.51.100.2", "port": 80, "hostname": "a.example"}\n'
            "]\n"
        ),
        ["2:192.0.2.1/32", "3:198.51.100.2/32"],
        [],
    ),
    "spamhaus": Sample(
        (
            '{"cidr": "192.0.2.0/24", "sblid": "SBL1", "rir": "x"}\n'
            '{"cidr": "2001:db8::/32", "sblid": "SBL2"}\n'
            '{"type": "metadata", "records": 2}\n'
        ),
        ["1:192.0.2.0/24", "2:2001:db8::/32"],
        [],
    ),
    "misp": Sample(
        (
            '{"Event": {"info": "x", "Attribute": [\n'
            ' {"type": "domain", "value": "a.example", "to_ids": true},\n'
            ' {"type": "ip-dst|port", "value": "192.0.2.1|443", "to_ids": true},\n'
            ' {"type": "url", "value": "http://b.example/x", "to_ids": false}],\n'
            ' "Object": [{"Attribute": [{"type": "md5", "value": "00ff", "to_ids": true}]}]}}\n'
        ),
        ["2:a.example/", "3:192.0.2.1/32"],
        [
            "4: http://b.example/x: left out: an attribute that is not for detection",
            "5: 00ff: left out: an attribute of the type 'md5'",
        ],
    ),
    "stix": Sample(
        (
            '{"type": "bundle", "objects": [\n'
            ' {"type": "indicator", "pattern_type": "stix", "spec_version": "2.1",\n'
            "  \"pattern\": \"[url:value = 'http://a.example/x' OR domain-name:value = 'b.example']\"},\n"
            ' {"type": "indicator", "pattern": "[ipv4-addr:value ISSUBSET \'192.0.2.0/24\']",'
            ' "valid_until": "2090-01-02T00:00:00Z"},\n'
            ' {"type": "indicator", "pattern": "[url:value = \'x\' AND file:size = 1]"},\n'
            ' {"type": "malware", "name": "x"}\n'
            "]}\n"
        ),
        ["2:a.example/x", "2:b.example/", "4:192.0.2.0/24"],
        [
            "5: [url:value = 'x' AND file:size = 1]: left out: a pattern of more than names, URLs and addresses",
            "6: malware: left out: an object of the type 'malware'",
        ],
    ),
    "searches": Sample(
        ("# words\nhow to+cheat\nfree games\n"),
        ["2:search.invalid/?cheat+how+to", "3:search.invalid/?free+games"],
        [],
    ),
    "words": Sample(
        ("# words\nhow to+cheat\nfree games\n"),
        ["2:words.invalid/?cheat+how+to", "3:words.invalid/?free+games"],
        [],
    ),
}
