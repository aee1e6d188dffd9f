import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasInexactNumbers, parseExactly } from "../../src/lib/exact-numbers.ts";
import { assert as assertProperty, jsonValue, property } from "../support/fast-check.ts";

const INEXACT = [
  "1.0",
  "-0",
  "1e3",
  "1E-7",
  "0.10",
  "0.0000001",
  "-0.00",
  "123456.7890",
  "12345678901234567890",
  "1e400",
  "-1.50e+2",
  "0.1234567890123456789",
];
/** They may stand at the beginning, at the end, and with any space before and after. */
const AROUND = ['{"a":[_]}', "_", "[1,_,2]", " \t_\n", '{"a":\r\n_}', '{"2.0":_,"b":"2.0"}'];
const EXACT = "0 -1 0.5 -0.5 0.000001 100 9007199254740991 1e+21 5e-324 123456789012345680000".split(" ");

describe("numbers of JSON text", () => {
  it("are told apart: those that JavaScript writes as it reads them, and others", () => {
    for (const around of AROUND) {
      for (const number of INEXACT) assert.ok(hasInexactNumbers(around.replace("_", number)), number + around);
      for (const number of EXACT) assert.ok(!hasInexactNumbers(around.replace("_", number)), number + around);
    }
  });

  it("do not count in strings and names", () => {
    for (const text of ['"1.0"', '"\\"1.0"', '{"1.0":"2026-01-01T00:00:00.120Z"}', '"\\\\","-0","1e3"']) {
      assert.ok(!hasInexactNumbers(`[${text}]`.replace('["\\\\","-0","1e3"]', '["\\\\","-0","1e3"]')), text);
    }
  });

  it("are written as they were, in every part", () => {
    const json = `{"a":[${INEXACT.join(",")}],"b":{"c":1.0},"d":"1.0","e\\"1.0":[true,null,"\\u0000"]}`;
    const { value, written } = parseExactly(json);
    assert.equal(written(value), json);
    assert.equal(written((value as { b: unknown }).b), '{"c":1.0}');
  });

  it("cannot be forged by a string that looks like one of them", () => {
    const marks = new Set(Array.from({ length: 20 }, () => (parseExactly("[1.0]").value as string[])[0]));
    assert.equal(marks.size, 20, "nobody can know the mark");
    const json = JSON.stringify([...marks]).replace("]", ",1.0]");
    const { value, written } = parseExactly(json);
    assert.equal(written(value), json);
  });

  it("take time in proportion to the text, whatever it is", () => {
    const texts = [
      '"'.repeat(200_000),
      `"${"\\".repeat(200_000)}1.0`,
      `"${'\\"'.repeat(100_000)}1.0`,
      `"${'\\"'.repeat(100_000)}1.0\\`,
      "1.".repeat(100_000),
      `[${"1.0,".repeat(50_000)}1.0]`,
      `[${"1".repeat(200_000)}`,
      ":".repeat(200_000),
      ",1".repeat(100_000),
    ];
    for (const text of texts) {
      const began = process.cpuUsage();
      hasInexactNumbers(text);
      assert.ok(process.cpuUsage(began).user < 2_000_000);
    }
  });

  it("leave any other value as it is", () => {
    assertProperty(
      property(jsonValue(), (value) => {
        const json = JSON.stringify(value);
        const { value: read, written } = parseExactly(json);
        assert.equal(written(read), JSON.stringify(JSON.parse(json)));
      }),
    );
  });
});
