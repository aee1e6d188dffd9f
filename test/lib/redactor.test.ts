import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Json } from "../../src/lib/json.ts";
import { Redactor } from "../../src/lib/redactor.ts";
import { assert as forAll, property, string, uniqueArray } from "../support/fast-check.ts";

function hiding(...values: string[]): Redactor {
  const redactor = new Redactor();
  for (const value of values) redactor.add(value);
  return redactor;
}

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
const escaped = (text: string, chars: RegExp, write: (code: number) => string): string =>
  text.replace(chars, (char) => write(char.charCodeAt(0)));
const fourDigits = (code: number): string => String.raw`\u${code.toString(16).padStart(4, "0")}`;
const asciiJson = (text: string): string => escaped(inJson(text), /[^\0-~]/g, fourDigits);
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const hex = (text: string): string => Buffer.from(text).toString("hex");

/** How programs escape characters. */
const escapes: Record<string, (text: string) => string> = {
  "JSON.stringify": inJson,
  "json.dumps of Python": asciiJson,
  "json_encode of PHP": (text) => asciiJson(text).replaceAll("/", "\\/"),
  "encoding/json of Go": (text) => escaped(inJson(text), /[<>&\u2028\u2029]/g, fourDigits),
  "System.Text.Json": (text) => escaped(text, /[^\w .]/g, (code) => fourDigits(code).toUpperCase().replace("U", "u")),
  "JSON in JSON": (text) => inJson(inJson(text)),
  "JSON in JSON in JSON": (text) => inJson(inJson(asciiJson(text))),
  encodeURIComponent,
  "lower-case percent-encoding": (text) => encodeURIComponent(text).replace(/%../g, (each) => each.toLowerCase()),
  "percent-encoding of each byte": (text) => hex(text).replace(/../g, "%$&"),
  "form encoding": (text) => new URLSearchParams({ "": text }).toString().slice(1),
  "percent-encoding twice": (text) => encodeURIComponent(encodeURIComponent(text)),
  "JSON in a form": (text) => encodeURIComponent(inJson(text)),
  "named entities": (text) =>
    text.replace(/[&<>"']/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char] ?? "&apos;"),
  "decimal entities": (text) => text.replace(/[^ -%(-;=?-~]/gu, (char) => `&#${char.codePointAt(0)};`),
  "hexadecimal entities": (text) =>
    text.replace(/[^ -%(-;=?-~]/gu, (char) => `&#x${char.codePointAt(0)!.toString(16)};`),
  "JSON in HTML": (text) => inJson(text).replaceAll('"', "&#34;"),
};

/** How programs pack bytes. */
const packings: Record<string, (text: string) => string> = {
  base64,
  "base64 for URLs": (text) => Buffer.from(text).toString("base64url"),
  "base64 in lines of 76": (text) => base64(text).replace(/.{76}(?=.)/g, "$&\r\n"),
  "base64 in lines of 8, in JSON": (text) => inJson(base64(text).replace(/.{8}(?=.)/g, "$&\n")),
  "base64 in JSON of PHP": (text) => base64(text).replaceAll("/", "\\/"),
  "base64 in a URL": (text) => encodeURIComponent(base64(text)),
  hex,
  "upper-case hex": (text) => hex(text).toUpperCase(),
};

describe("a value that is shown", () => {
  it("has no number in it that is hidden as text", () => {
    assert.deepEqual(hiding("73914").hideIn({ pin: 73914, other: 73915 }), { pin: "[hidden]", other: 73915 });
  });

  it("is hidden where it is nested too deep to be looked through", () => {
    const nested = JSON.parse(`${"[".repeat(20_000)}"secret"${"]".repeat(20_000)}`) as Json;
    assert.match(JSON.stringify(hiding("secret").hideIn(nested)), /^\[+"\[hidden\]"\]+$/);
  });

  it("has no more members and items than are looked through", () => {
    const many = Array.from({ length: 50_000 }, (_, index) => `v${index}`);
    const list = hiding("secret").hideIn(many) as string[];
    assert.ok(list.length < 5_000 && list.at(-1) === "[hidden]", `${list.length}`);
    const object = hiding("secret").hideIn(Object.fromEntries(many.map((name) => [name, name]))) as object;
    const names = Object.keys(object);
    assert.ok(names.length < 5_000 && names.at(-1) === "[hidden]", `${names.length}`);
    const lists = many.map(() => [{}]);
    assert.ok(JSON.stringify(hiding("secret").hideIn(lists)).length < 50_000);
  });
});

describe("a text that is shown", () => {
  const secret = "s3cret/value+with=signs";
  const long = Array.from({ length: 400 }, (_, number) => `${number * 7_919}-`).join("");

  it("has no value in it, in any usual notation", () => {
    assert.equal(hiding(secret).hide(`a ${secret}${secret} b`), "a [hidden][hidden] b");
    assert.equal(hiding(secret).hide("nothing of it"), "nothing of it");
    for (const value of [secret, `pä"ss 'word <1>&\n€😀/~`, long]) {
      const hide = (text: string): string => hiding(value).hide(text).replaceAll("=", "");
      for (const [name, escape] of Object.entries(escapes)) {
        assert.equal(hide(`(${escape(value)})`), "([hidden])", name);
        for (const pack of [base64, hex].filter(() => !name.includes("in ") && !name.includes("twice")))
          assert.equal(hide(`(${pack(escape(value))})`), "([hidden])", `${name} in ${pack === hex ? "hex" : "base64"}`);
      }
      for (const [name, pack] of Object.entries(packings)) {
        assert.equal(hide(`(${pack(value)})`).replaceAll("%3D", ""), "([hidden])", name);
        const around = hide(pack(`user:${value}@host`));
        assert.ok(around.includes("[hidden]") && around.length < 40, `${name}: ${around}`);
      }
      for (const before of ["", "x", "xy"])
        assert.match(hide(`Authorization: Basic ${base64(`${before}${value}`)}`), /^Authorization: .{0,9}\[hidden\]$/);
    }
  });

  it("has no ASCII value in UTF-16", () => {
    const bytes = Buffer.from(secret, "utf16le");
    for (const text of [bytes.toString("latin1"), bytes.toString("base64"), bytes.toString("hex")])
      assert.ok(hiding(secret).hide(`(${text})`).length < 20, text);
  });

  it("has no part of a value where it was cut, in whatever notation", () => {
    const value = "K7#v/9\"x<+Ql2éW8 z&Tn4'>R0b=Ym6 %q€J3";
    for (const [name, write] of Object.entries({ ...escapes, base64, hex })) {
      const written = write(value);
      for (let at = Math.ceil(written.length * 0.35); at < written.length * 0.65; at++) {
        const ends = hiding(value).hide(`~ ${written.slice(0, at)}`);
        assert.ok(ends.length < 20, `${name}, its beginning: ${ends}`);
        const begins = hiding(value).hide(`~…${written.slice(at)} ~`);
        assert.ok(begins.length < 20, `${name}, its end: ${begins}`);
      }
    }
  });

  it("has no long value in it, nor its beginning or its end where it was cut", () => {
    const hide = (text: string): string => hiding(long).hide(text).replaceAll("=", "");
    assert.equal(hide(`(${long})`), "([hidden])");
    assert.equal(hide(`(${base64(long)})`), "([hidden])");
    assert.equal(hide(`(${long.slice(0, 900)}`), "([hidden]");
    assert.equal(hide(`${long.slice(900)})`), "[hidden])");
    assert.equal(hide(`(${long.slice(0, 900)}…${long.slice(1_200)})`), "([hidden]…[hidden])");
  });

  it("has no value that half a surrogate pair is part of, or that was cut within one", () => {
    assert.equal(hiding("abc\ud800def").hide("(abc\ud800def) abcdef"), "([hidden]) [hidden]");
    assert.equal(hiding("secret 😀 value").hide("a secret \ud83d"), "a [hidden]");
    assert.equal(hiding("secret 😀 value").hide("a secret \ufffd…"), "a [hidden]…");
  });

  it("is not cut where it stands for itself, and has no beginning of a value taken out of it", async () => {
    let turns = 0;
    const hide = (text: string, lengthMin = 6): Promise<string> =>
      hiding(secret, "abcdefgh", "fghijklm").hideWhole(text, lengthMin, () => void turns++);
    assert.equal(
      await hide(`${secret}${secret}-abcdefghijklm-${secret.slice(0, 9)}`),
      `[hidden][hidden]-[hidden]-${secret.slice(0, 9)}`,
    );
    assert.equal(await hide(`abcdefgh ${secret}`, 12), "abcdefgh [hidden]");
    const long = "abcdefg ".repeat(15_000);
    assert.ok((await hide(long + secret)) === `${long}[hidden]`);
    assert.ok(turns > 6, `${turns}`);
    assert.equal(await hide("abcdefgh".repeat(600_000)), "[hidden]");
  });

  it("has no part of one where it was cut", () => {
    const redactor = hiding(secret);
    assert.equal(redactor.hide(`see ${secret.slice(0, 9)}`), "see [hidden]");
    assert.equal(redactor.hide(`${secret.slice(9)} is it`), "[hidden] is it");
    assert.equal(redactor.hide(`a ${secret.slice(0, 9)}…${secret.slice(12)} b`), "a [hidden]…[hidden] b");
    assert.equal(
      redactor.hide(`${secret.slice(0, 9)} goes on`),
      `${secret.slice(0, 9)} goes on`,
      "it was not cut there",
    );
  });

  it("has none of two values that overlap, nor one that has a mark of a cut in it", () => {
    assert.equal(hiding("abcdefgh", "fghijklm").hide("-abcdefghijklm-"), "-[hidden]-");
    assert.equal(hiding("before…after").hide("-before…after-"), "-[hidden]-");
    assert.equal(hiding("x7").hide("x7x7 x"), "[hidden][hidden] x");
  });

  it("has no line of a key", () => {
    const lines = ["-----BEGIN KEY-----", "abcdefghijklmnopqrst", "short"];
    assert.equal(hiding(lines.join("\n")).hide(`${lines[1]}, ${lines[2]}`), "[hidden], short");
  });

  it("has no value in it, whatever the values and the text are", () => {
    const value = string({ minLength: 2, maxLength: 12, unit: "grapheme-ascii" }).filter(
      (text) => !"[hidden]".includes(text),
    );
    forAll(
      property(uniqueArray(value, { minLength: 1, maxLength: 5 }), uniqueArray(string()), (values, between) => {
        const shown = hiding(...values).hide(values.map((each, index) => each + (between[index] ?? "")).join(""));
        for (const each of values) assert.ok(!shown.replaceAll("[hidden]", "\0").includes(each), `${each} in ${shown}`);
      }),
    );
  });

  it("shows the oldest values again once all together have more than half a million characters", () => {
    const long = (at: number, letters: number): string => {
      const parts = Array.from({ length: letters / 6 }, (_, part) => String(at * 100_000 + part).padStart(6, "0"));
      return parts.join("");
    };
    const values = Array.from({ length: 10 }, (_, at) => long(at, 60_000));
    const redactor = hiding(...values);
    const hidden = values.map((value) => redactor.hide(`-${value}-`.slice(0, 20_000) + "…") === "-[hidden]…");
    assert.deepEqual(hidden, [false, false, ...Array.from({ length: 8 }, () => true)]);
    const one = long(1, 600_000);
    assert.equal(hiding(one).hide(`-${one.slice(0, 20_000)}…`), "-[hidden]…");
  });

  it("costs as much as it is long, however many values begin alike", () => {
    const texts = Array.from({ length: 3_000 }, () => "aaaaaaaab");
    const cpuOf = (redactor: Redactor): number => {
      const taken = [1, 2, 3, 4].map(() => {
        const before = process.cpuUsage();
        redactor.hideIn(texts);
        const { user, system } = process.cpuUsage(before);
        return user + system;
      });
      return Math.min(...taken);
    };
    const alike = Array.from({ length: 256 }, (_, number) => `aaaaaaaa${number}`);
    const [one, all] = [cpuOf(hiding("another value")), cpuOf(hiding(...alike))];
    assert.ok(all < 6 * one, `${all} µs for all, ${one} µs for one`);
  });

  it("is cut where it is long", () => {
    assert.equal(hiding(secret).hide(`${"x".repeat(40_000)}${secret}`), `${"x".repeat(32 * 1024)}…`);
    const many = Array.from({ length: 100 }, () => "y".repeat(1_000));
    const shown = hiding(secret).hideIn(many) as string[];
    assert.deepEqual([shown[0], shown.at(-1)], [many[0], "[hidden]"]);
  });

  it("has neither the values of another redactor nor its own, where it extends the other", () => {
    const base = hiding("abcdefgh");
    const extended = new Redactor(base);
    extended.add("fghijklm");
    assert.equal(extended.hide("-abcdefghijklm-abcdefgh-fghijklm-"), "-[hidden]-[hidden]-[hidden]-");
    assert.equal(base.hide("-fghijklm-"), "-fghijklm-");
    for (let number = 0; number < 300; number++) extended.add(`another value ${number}`);
    assert.deepEqual([base.isIncomplete, extended.isIncomplete], [false, true]);
  });
});
