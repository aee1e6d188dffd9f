import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { openTemplate } from "../support/reference.ts";

await describe("the jq definition", async () => {
  const guest = await openTemplate({ after: (end) => after(end as () => void) }, "jq.ts");

  const jq = (filter: string, options: object = {}) => guest.call("jq", { filter, ...options });
  const query = (filter: string, input?: unknown, options: object = {}) =>
    guest.call("query", { filter, ...(input === undefined ? {} : { input }), ...options });

  await test("filters have jq's own meaning (T8.4)", async () => {
    const cases: [filter: string, input: unknown, results: unknown[]][] = [
      [".", { a: 1 }, [{ a: 1 }]],
      [".a.b[1]", { a: { b: [1, 2] } }, [2]],
      [".[1:], .[-1]", [1, 2, 3], [[2, 3], 3]],
      [".[] | select(.b > 10) | .a", [{ b: 5 }, { a: "x", b: 20 }], ["x"]],
      ["reduce .[] as $x (0; . + $x)", [1, 2, 3], [6]],
      ["with_entries(.value += 1)", { a: 1 }, [{ a: 2 }]],
      ["del(.a) | .b.c = 1", { a: 1 }, [{ b: { c: 1 } }]],
      ['[.[] | try tonumber catch "bad"]', ["1", "x"], [[1, "bad"]]],
      ["@base64, (@base64 | @base64d)", "héllo", ["aMOpbGxv", "héllo"]],
      ["@csv", [1, 'a"b'], ['1,"a""b"']],
      ['@uri "https://x/?q=\\(.)"', "a b&c", ["https://x/?q=a%20b%26c"]],
      ['sub("(?<x>b)"; "<\\(.x)>")', "abc", ["a<b>c"]],
      ["def twice(f): f | f; twice(. * 3)", 2, [18]],
      ['"2026-03-29T01:30:00Z" | fromdate | todate', null, ["2026-03-29T01:30:00Z"]],
      [". as [$a, {b: $b}] | [$b, $a]", [1, { b: 2 }], [[2, 1]]],
      ['"line\\nbreak \\u2028"', null, ["line\nbreak \u2028"]],
      ["empty", null, []],
    ];
    for (const [filter, input, results] of cases) {
      const given = typeof input === "string" ? JSON.stringify(input) : input;
      assert.deepEqual(await query(filter, given), results, filter);
    }
  });

  await test("it is jq 1.8", async () => {
    assert.deepEqual(await query('[1, 2] | have_decnum, trimstr("x")?, add(.[])'), [true, 3]);
  });

  await test("a text is jq's input: several values, or lines of raw text", async () => {
    assert.deepEqual(await query(".a", '{"a":1} {"a":2}\n{"a":3}'), [1, 2, 3]);
    assert.deepEqual(await query("map(.a)", '{"a":1} {"a":2}', { slurp: true }), [[1, 2]]);
    assert.deepEqual(await query("[., input]", "1 2"), [[1, 2]]);
    assert.deepEqual(await query("length", "one\nthree", { rawInput: true }), [3, 5]);
    assert.deepEqual(await query(".", "one\ntwo", { rawInput: true, slurp: true }), ["one\ntwo"]);
    assert.deepEqual(await query(".", ""), []);
    assert.deepEqual(await query(". == null", null), [true]);
    assert.deepEqual(await query('[., (try input catch "no more")]'), [[null, null]]);
  });

  await test("output is printed as jq prints it", async () => {
    const input = { b: "  x  ", a: [1, { c: null }] };
    assert.equal(await jq(".", { input }), JSON.stringify(input, null, 2));
    assert.equal(await jq(".", { input, compact: true, sortKeys: true }), '{"a":[1,{"c":null}],"b":"  x  "}');
    assert.equal(await jq(".b", { input }), '"  x  "');
    assert.equal(await jq(".b, .a", { input, rawOutput: true }), `  x  \n${JSON.stringify(input.a, null, 2)}`);
    assert.equal(await jq(".[]", { input: ["\n", 'a"b'], rawOutput: true, compact: true }), '\n\na"b');
    assert.equal(await jq("100000000000000000001"), "100000000000000000001");
  });

  await test("variables reach the filter by name, whatever they hold", async () => {
    const variables = { text: '--arg $x "', list: [1], nothing: null };
    assert.deepEqual(await query("$text, $list[0], $nothing", undefined, { variables }), ['--arg $x "', 1, null]);
  });

  await test("errors are jq's own, and the next call works", async () => {
    const failures: [filter: string, input: unknown, message: RegExp][] = [
      [".a", [1], /^jq: error .*Cannot index array with string/],
      [".[", 1, /^jq: error: syntax error, unexpected end of file/],
      ["$nope", 1, /\$nope is not defined/],
      ["nope", 1, /nope\/0 is not defined/],
      ['1, error("x")', 1, /^jq: error \(at .*\): x$/],
      [".", "{a", /parse error: Invalid/],
      ['"bye" | halt_error', 1, /^bye$/],
      ["null | error(null)", 1, /\(not a string\): null/],
      ["{} | halt_error(3)", 1, /\{\}/],
      ['include "x"; .', 1, /module not found/],
    ];
    for (const [filter, input, message] of failures) {
      await assert.rejects(query(filter, input), { message }, filter);
      assert.deepEqual(await query("1 + 1"), [2]);
    }
  });

  await test("what a filter says by debug is logged, and its result is the same", async () => {
    assert.deepEqual(await query('1 | debug("seen") + 1'), [2]);
    assert.deepEqual(guest.logs, [{ level: "debug", message: '["DEBUG:","seen"]' }]);
  });

  await test("it sees no file and no environment of the host", async () => {
    await assert.rejects(query('include "/etc/passwd"; .'), /module not found/);
    assert.deepEqual(await query("$ENV.HOME"), ["/home/web_user"]);
  });

  await test("takes a megabyte, and keeps nothing of a call for the next", async () => {
    const rows = Array.from({ length: 20_000 }, (_, index) => ({ index, text: "abcdefghijklmnopqrstuvwxyz" }));
    assert.deepEqual(await query("map(.index) | add", rows), [199_990_000]);
    for (let number = 0; number < 100; number += 1) {
      assert.deepEqual(await query(".a", { a: number }), [number]);
      await assert.rejects(query(".["));
    }
  });
});
