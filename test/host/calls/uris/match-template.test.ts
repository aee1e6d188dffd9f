import assert from "node:assert/strict";
import { test } from "node:test";
import { parseUriTemplate } from "../../../../src/discover/uri-template.ts";
import { templateMatcher } from "../../../../src/host/calls/uris/find-resource.ts";

type Variables = Record<string, string | string[]>;

function match(template: string, uri: string, lists: readonly string[] = []): Variables | undefined {
  return templateMatcher(template, (name) => lists.includes(name)).match(uri);
}

test("each kind of expression is found again in what RFC 6570 makes of it", () => {
  const cases: [template: string, uri: string, variables: Variables, lists?: string[]][] = [
    ["a:{var}", "a:value", { var: "value" }],
    ["a:{hello}", "a:Hello%20World%21", { hello: "Hello World!" }],
    ["a:{var}", "a:%E2%82%AC%2F", { var: "€/" }],
    ["a:{x,y}", "a:1024,768", { x: "1024", y: "768" }],
    ["a:{list}", "a:red,green,blue", { list: ["red", "green", "blue"] }, ["list"]],
    ["a:{list*}", "a:red,green,blue", { list: ["red", "green", "blue"] }],
    ["a:{text}", "a:one,two", { text: "one,two" }],
    ["a:{+path}/here", "a:/foo/bar/here", { path: "/foo/bar" }],
    ["a:x{#frag}", "a:x#sec/1", { frag: "sec/1" }],
    ["a:x{#frag}", "a:x", {}],
    ["a:X{.var}", "a:X.value", { var: "value" }],
    ["a:X{.x,y}", "a:X.1024.768", { x: "1024", y: "768" }],
    ["a:{/var}", "a:/value", { var: "value" }],
    ["a:b{/var,x}/here", "a:b/value/1024/here", { var: "value", x: "1024" }],
    ["a:b{/list*}", "a:b/red/green/blue", { list: ["red", "green", "blue"] }],
    ["a:b{;x,y}", "a:b;x=1024;y=768", { x: "1024", y: "768" }],
    ["a:b{;x,empty}", "a:b;empty;x=1", { empty: "", x: "1" }],
    ["a:b{;list*}", "a:b;list=red;list=green", { list: ["red", "green"] }],
    ["a:b{?x,y}", "a:b?x=1024&y=768", { x: "1024", y: "768" }],
    ["a:b{?x,y}", "a:b?y=%26", { y: "&" }],
    ["a:b{?x,y}", "a:b", {}],
    ["a:b{?list*}", "a:b?list=red&list=green", { list: ["red", "green"] }],
    ["a:b{?list}", "a:b?list=red,green", { list: ["red", "green"] }, ["list"]],
    ["a:b?fixed=yes{&x}", "a:b?fixed=yes&x=1024", { x: "1024" }],
    ["a:{var:3}", "a:val", { var: "val" }],
    ["test://template/{id}/data", "test://template/123/data", { id: "123" }],
    ["a://{host}{/path*}{?q}", "a://h/x/y?q=1", { host: "h", path: ["x", "y"], q: "1" }],
    ["a:{constructor}", "a:x", { constructor: "x" }],
    ["a:{__proto__}", "a:x", { ["__proto__"]: "x" }],
    ["a:(.*)+{x}", "a:(.*)+1", { x: "1" }],
  ];
  for (const [template, uri, variables, lists] of cases) {
    assert.deepEqual(match(template, uri, lists), variables, `${template} in ${uri}`);
  }
});

test("a URI that the template never gives is none of its", () => {
  const cases: [template: string, uri: string][] = [
    ["test://template/{id}/data", "test://template//data"],
    ["test://template/{id}/data", "test://template/1/2/data"],
    ["test://template/{id}/data", "xtest://template/1/data"],
    ["test://template/{id}/data", "test://template/1/data/more"],
    ["test://template/{id}/data", "test://template/1\n/data\n"],
    ["a:{x}", "a:%zz"],
    ["a:{x}", "a:%ff"],
    ["a:{x,y}", "a:1,2,3"],
    ["a:{var:3}", "a:value"],
    ["a:b{?x}", "a:b?y=1"],
    ["a:b{?x}", "a:b?x=1&x=2"],
    ["a:b{/x}", "a:b/1/2"],
  ];
  for (const [template, uri] of cases) assert.equal(match(template, uri), undefined, `${template} in ${uri}`);
});

test("no URI takes more work than it has characters, for each character of the template", () => {
  const expressions = Array.from({ length: 500 }, (_, number) => `{+v${number}}`).join("");
  const template = `a:${expressions}`;
  const matcher = templateMatcher(template, () => false);
  const uri = `a:${"/;?&=abc".repeat(1_000)}`;
  assert.equal(matcher.steps(uri), (template.length - 1) * (uri.length - 1));
  assert.equal(matcher.steps(`b${uri}`), 0, "its begin tells");
  assert.deepEqual(matcher.match("a:short"), undefined, "fewer characters than variables");
  assert.equal(Object.keys(matcher.match(uri)!).length, 500);
});

test("a template that says a variable twice is told where", () => {
  const fault = { message: 'the variable "a" appears twice', offset: 7, length: 1 };
  assert.deepEqual(parseUriTemplate("a:{a,b,a}"), fault);
});

test("a template, or a URI, that is longer than any is none", () => {
  const long = `a:${"b".repeat(8_200)}`;
  assert.equal(match(`${long}{x}`, `${long}c`), undefined);
  assert.equal(match("a:{x}", long), undefined);
});
