import assert from "node:assert/strict";
import os from "node:os";
import { describe, it } from "node:test";
import { isPublicAddress } from "../../src/network/addresses.ts";
import { allowedByBoth, bareHostname, parseAllowedHost, type AllowedHost } from "../../src/network/allow-list.ts";
import { listRules, NetworkRefused, portOf } from "../../src/network/network-rules.ts";
import { parsePrivateHosts } from "../../src/network/private-hosts.ts";
import { assert as assertProperty, constantFrom, ipV4, ipV6, property, runs, webUrl } from "../support/fast-check.ts";
import { rows } from "../support/rows.ts";

const listOf = (...texts: string[]): AllowedHost[] =>
  texts.map((text) => {
    const allowed = parseAllowedHost(text);
    if (typeof allowed === "string") assert.fail(allowed);
    return allowed;
  });

const rulesOf = (...texts: string[]) => listRules(listOf(...texts), { privateToo: true });

describe("what a server may reach", () => {
  it("is the listed hosts at their ports, however a URL is written", () => {
    const { checkUrl } = rulesOf("api.example.org", "api.example.org:8443", "*.example.net", "[2606:4700::1111]:443");
    const allowed =
      "https://api.example.org https://API.EXAMPLE.ORG:443/a?b#c https://api.example.org:8443/ " +
      "http://api.example.org:443/ https://a.example.net/ https://a.b.example.net/ https://api%2Eexample.org/ " +
      "https:\\\\api.example.org\\path https://api.example.org\\.evil.org@evil.org/ https://ａｐｉ.example.org/ " +
      "https://[2606:4700:0::1111]/";
    for (const url of allowed.split(" ")) assert.equal(checkUrl(url).protocol.startsWith("http"), true, url);
    const refused =
      " api.example.org //api.example.org/ http://api.example.org/ https://api.example.org:444/ " +
      "https://api.example.org./ https://example.net/ https://a.example.net./ https://aexample.net/ " +
      "https://example.net.evil.org/ https://api.example.org.evil.org/ https://api.example.org@evil.org/ " +
      "https://api.example.org:443@evil.org/ https://api.example.org%40evil.org/ " +
      "https://user:password@api.example.org/ https://user@api.example.org/ https://:password@api.example.org/ " +
      "https://evil.org/https://api.example.org/ https://evil.org#@api.example.org/ " +
      "https://evil.org?@api.example.org/ https://evil.org\\@api.example.org/ https://api.example.org\t.evil.org/ " +
      "https://аpi.example.org/ https://api。evil.org/ https://[2606:4700::1112]/ ftp://api.example.org/ " +
      "file:///etc/passwd data:text/plain,hello javascript:alert(1) blob:https://api.example.org/x " +
      "ws://api.example.org:443/";
    for (const url of refused.split(" ")) assert.throws(() => checkUrl(url), NetworkRefused, url);
  });

  it("is listed by names as in URLs; ambiguous entries are refused", () => {
    const names = listOf("BÜCHER.example:8080", "*.Example.ORG", "*", "*:80");
    const read = ["host xn--bcher-kva.example 8080", "below example.org 443", "any  443", "any  80"];
    assert.deepEqual(rows(names, "kind", "name", "port"), read);
    const texts = "https://a.org HTTP://a.org redis://cache:6380 postgres://db ldap://*.a.org x-any://a.org:1";
    const listed = "host a.org 443,host a.org 80,host cache 6380,host db 5432,below a.org 389,host a.org 1";
    assert.deepEqual(rows(listOf(...texts.split(" ")), "kind", "name", "port"), listed.split(","));
    const wrong = (
      "|.|a b|a..b:x|https://a.org/|telnet://a.org|https://u@a.org|://a.org|a.org/|a.org?b|a@b.org|a.org:0|a.org:65536|a.org:http|a.org.|**.a.org|a.*.org|" +
      "*a.org|127.1|0x7f000001|2130706433|0177.0.0.1|*.127.0.0.1|[::ffff:127.0.0.1]:80x|[::1|::1|[fe80::1%25eth0]:80|" +
      "a.org:443:443|a.org\n|a\\b.org"
    ).split("|");
    for (const text of wrong) assert.equal(typeof parseAllowedHost(text), "string", text);
  });

  it("includes every public address for `*`, and no other address", () => {
    const rules = rulesOf("*", "*:80");
    for (const url of ["https://anything.example/", "http://1.1.1.1/", "http://127.0.0.1/"]) rules.checkUrl(url);
    assert.throws(() => rules.checkUrl("https://anything.example:8443/"), NetworkRefused);
    assert.equal(rules.mayReach("1.1.1.1", 80), true);
    for (const address of ["127.0.0.1", "::1", "10.0.0.1"]) assert.equal(rules.mayReach(address, 80), false);
  });

  it("excludes addresses of this machine, however they are written", () => {
    const rules = rulesOf("*:80");
    const ways = (
      "127.0.0.1 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 017700000001 0177.0.0.01 0 " +
      "0.0.0.0 127.0.0.1. %31%32%37.0.0.1 １２７.0.0.1 127。0。0。1 ①②⑦.0.0.1 [::1] [::] [::ffff:127.0.0.1] " +
      "[::ffff:7f00:1] [0:0:0:0:0:ffff:127.0.0.1] [::127.0.0.1] [64:ff9b::127.0.0.1] [64:ff9b:1::7f00:1] [2002:7f00:1::] [2001:0:7f00:1::] [fc00::1] [fd12:3456::1] " +
      "[fe80::1] [fec0::1] [ff02::1] 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 " +
      "224.0.0.1 255.255.255.255"
    ).split(" ");
    for (const way of ways) {
      const text = `http://${way}/`;
      const url = rules.checkUrl(text);
      assert.equal(rules.mayReach(bareHostname(url), portOf(url)), false, text);
    }
  });

  it("includes an address of this machine only if it is listed literally, and for the default tenant only (C8)", () => {
    const list = listOf("127.0.0.1:3000", "[::1]:3000", "localhost:3000");
    const rules = listRules(list, { privateToo: true });
    assert.equal(rules.mayReach("127.0.0.1", 3000), true);
    assert.equal(rules.mayReach("::1", 3000), true);
    assert.equal(rules.mayReach("127.0.0.1", 3001), false);
    for (const address of ["127.0.0.2", "::ffff:127.0.0.1"]) assert.equal(rules.mayReach(address, 3000), false);
    const others = listRules(list, { privateToo: false });
    for (const address of ["127.0.0.1", "::1"]) assert.equal(others.mayReach(address, 3000), false);
    assert.doesNotMatch(others.explain(["10.1.2.3"]), /10\.1/, "which addresses names have here is nobody's business");
  });

  it("includes a private host that the operator opens, for entries that list it by name", () => {
    const privateHosts = parsePrivateHosts("db.internal:5432, cache.internal, 10.0.0.7:80");
    if (typeof privateHosts === "string") assert.fail(privateHosts);
    const texts = "db.internal:5432 cache.internal:6379 10.0.0.7:80 *.internal:5432 other.internal:22";
    const list = listOf(...texts.split(" "));
    const { mayReach } = listRules(list, { privateToo: false, privateHosts, ownPort: 7420 });
    const reached: [string, number, string][] = [
      ["10.0.0.5", 5432, "db.internal"],
      ["127.0.0.1", 6379, "cache.internal"],
      ["fd12::1", 6379, "cache.internal"],
      ["10.0.0.7", 80, "10.0.0.7"],
      ["1.1.1.1", 22, "other.internal"],
    ];
    for (const each of reached) assert.equal(mayReach(...each), true, each.join(" "));
    const refused: [string, number, string][] = [
      ["10.0.0.5", 5433, "db.internal"],
      ["10.0.0.5", 5432, "x.internal"],
      ["10.0.0.5", 22, "other.internal"],
      ["10.0.0.5", 6380, "cache.internal"],
    ];
    const never = "169.254.169.254 ::ffff:169.254.169.254 fd00:ec2::254 100.100.100.200 0.0.0.0 224.0.0.1 fe80::1%eth0";
    for (const address of never.split(" ")) refused.push([address, 6379, "cache.internal"]);
    for (const each of refused) assert.equal(mayReach(...each), false, each.join(" "));
  });

  it("never includes metadata services or Berth itself", () => {
    const list = listOf("169.254.169.254:80", "127.0.0.1:7420", "localhost:7420", "[::1]:7420", "127.0.0.1:7421");
    const privateHosts = [{ name: "localhost" }, { name: "127.0.0.1" }, { name: "169.254.169.254" }];
    const { mayReach } = listRules(list, { privateToo: true, privateHosts, ownPort: 7420 });
    assert.equal(mayReach("127.0.0.1", 7421), true);
    assert.equal(mayReach("169.254.169.254", 80), false);
    for (const address of ["127.0.0.1", "::1", "0.0.0.0"]) {
      for (const host of [address, "localhost"]) assert.equal(mayReach(address, 7420, host), false, address);
    }
  });

  it("reads the operator's private hosts with ports and tenants", () => {
    assert.deepEqual(parsePrivateHosts("acme@DB.internal:5432,cache, [fd12::1]:22 ,[fd12::2]"), [
      { name: "db.internal", port: 5432, tenant: "acme" },
      { name: "cache" },
      { name: "fd12::1", port: 22 },
      { name: "fd12::2" },
    ]);
    assert.deepEqual(parsePrivateHosts(""), []);
    for (const text of ["*", "*.internal", "A@db:1", "a@b@c", "db:0", "db/x"]) {
      assert.equal(typeof parsePrivateHosts(text), "string", text);
    }
  });

  it("treats addresses of own interfaces and of the host's agent as private", (t) => {
    assert.equal(isPublicAddress("168.63.129.16"), false);
    const info = { netmask: "", mac: "", internal: false, cidr: null };
    const one = { ...info, family: "IPv4", address: "8.8.4.4" } as const;
    const other = { ...info, family: "IPv6", address: "2a00:1450::2", scopeid: 0 } as const;
    t.mock.method(os, "networkInterfaces", () => ({ eth0: [one, other] }));
    for (const address of ["8.8.4.4", "2a00:1450::2", "2a00:1450:0:0::2"])
      assert.equal(isPublicAddress(address), false);
    for (const address of ["8.8.8.8", "2a00:1450::1"]) assert.equal(isPublicAddress(address), true);
  });

  it("treats only global unicast addresses as public", () => {
    const inside = (address: string): boolean =>
      /^(?:0|10|127)\.|^192\.168\.|^169\.254\.|^172\.(?:1[6-9]|2\d|3[01])\./.test(address);
    assertProperty(property(ipV4(), (address) => !inside(address) || !isPublicAddress(address)));
    assertProperty(property(ipV6(), (address) => !isPublicAddress(address) || /^[23][0-9a-f]{0,3}:/i.test(address)));
    for (const text of ["", "localhost", "1.1.1", "1.1.1.1 ", "fe80::1%eth0", "2606:4700::1111%1", "g::1"]) {
      assert.equal(isPublicAddress(text), false, text);
    }
    for (const address of ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450::1"]) {
      assert.equal(isPublicAddress(address), true, address);
    }
  });

  it("allows only URLs at the listed host and port, whatever the URL", () => {
    const { checkUrl } = rulesOf("api.example.org");
    assertProperty(
      property(webUrl(), (text) => {
        for (const start of ["//", "//api.example.org@", "//api.example.org\\@"]) {
          const each = text.replace("//", start);
          let url: URL;
          try {
            url = checkUrl(each);
          } catch (error) {
            assert.ok(error instanceof NetworkRefused);
            continue;
          }
          assert.deepEqual([url.hostname, portOf(url)], ["api.example.org", 443]);
        }
      }),
      { numRuns: runs(10) },
    );
  });
});

it("what two lists allow is the intersection of what each allows", () => {
  const texts =
    "* *.example.org *.a.example.org example.org a.example.org b.a.example.org 10.0.0.5 1.1.1.1 [::1] " +
    "[2606:4700::1111] *:80 10.0.0.5:80 a.example.org:80";
  const hosts = ["example.org", "a.example.org", "b.a.example.org", "c.b.a.example.org", "example.net"];
  const addresses = ["10.0.0.5", "1.1.1.1", "::1", "2606:4700::1111", "8.8.8.8"];
  const said = (list: readonly AllowedHost[]): boolean[] => {
    const { checkHost, mayReach } = listRules(list, { privateToo: true });
    const named = (host: string, port: number): boolean => {
      try {
        return (checkHost(host, port), true);
      } catch {
        return false;
      }
    };
    return [443, 80].flatMap((port) =>
      [
        hosts.map((host) => named(host, port)),
        addresses.map((address) => named(address, port) && mayReach(address, port)),
        addresses.map((address) => mayReach(address, port)),
      ].flat(),
    );
  };
  // Lists of two each: further entries of a list change nothing between the others.
  const lists = texts.split(" ").flatMap((one, index, all) => all.slice(index).map((other) => listOf(one, other)));
  const alone = lists.map((list) => ({ list, says: said(list) }));
  assertProperty(
    property(constantFrom(...alone), constantFrom(...alone), ({ list: one, says: a }, { list: other, says: b }) => {
      const expected = a.map((each, index) => each && b[index]);
      assert.deepEqual(said(allowedByBoth(one, other)), expected, JSON.stringify([one, other]));
    }),
    { numRuns: runs(400) },
  );
  for (const list of lists) assert.deepEqual(allowedByBoth(list, list), list);
});
