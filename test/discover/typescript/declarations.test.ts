import assert from "node:assert/strict";
import { test } from "node:test";
import { found, said, signatures } from "../../support/discovered.ts";
import { rows } from "../../support/rows.ts";

test("the types of globals that guests have are known", () => {
  const all = found(`
    class Refusal extends Error {
      constructor(message: string) { super(message); Error.captureStackTrace(this, Refusal); }
    }
    function entry(form: FormData): FormDataEntryValue | null { return form.get("a"); }
    export async function sign(jwk: JsonWebKey, data: string, key: CryptoKey | string): Promise<JsonWebKey> {
      const bytes: Buffer<ArrayBuffer> = Buffer.from(data).subarray(1);
      const shared: Buffer<SharedArrayBuffer> = null as never;
      const sources: BufferSource[] = [bytes, bytes.buffer, new DataView(bytes.buffer)];
      const made: CryptoKey = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["sign"]);
      if (sources.length > Error.stackTraceLimit) throw new Refusal(made.type + (key instanceof CryptoKey) + shared.length);
      entry(new FormData());
      return jwk;
    }
    export function query(all: Record<string, string | string[]>): string {
      return [new URLSearchParams(all), new URLSearchParams([["a", "b"]]), new URLSearchParams([[data()], [data()]])].join();
    }
    const data = (): string => "a";
    type Algorithm = AlgorithmIdentifier | CryptoKeyPair;
    const algorithm: Algorithm | undefined = undefined;
    export function bytes(it: BufferSource | string): string { return String(it) + algorithm; }
  `);
  const [sign] = all.tools;
  assert.equal(all.tools.map(({ name }) => name).join(), "sign,query,bytes");
  const { kty } = sign!.outputSchema!["properties"] as Record<string, unknown>;
  assert.deepEqual(kty, { type: "string" });
  assert.deepEqual(said(all), [
    "warning: sign: CryptoKey for key cannot be given: CryptoKey cannot be represented in JSON; use a JSON Web Key or its text",
    "warning: bytes: ArrayBuffer for it cannot be given, nor can ArrayBufferView<ArrayBuffer> for it: ArrayBuffer contains bytes, which JSON cannot represent; use a base64 string",
  ]);
});

test("a warning about what a type of the language holds stands where the author names that type", () => {
  const { problems } = found(`
    export function settle(
      name: string,
      result: PromiseSettledResult<string>,
    ) {}
    export function pick({ name, result }: { name: string; result: PromiseRejectedResult }) {}
  `);
  assert.deepEqual(rows(problems, "code", "tool", "file", "line", "column"), [
    "any-accepted settle demo.ts 4 7",
    "any-accepted pick demo.ts 6 34",
  ]);
});

test("declarations beside a definition are its types, and what they declare without code is no tool", () => {
  const all = found(
    `
      import type { User } from "./user";
      import { pad } from "pad";
      export { half } from "./math.js";
      export { nowhere } from "./nowhere.js";
      export function f(user: User, options: Options, width: pad.Width) {}
    `,
    {
      "user.d.ts": "export interface User { name: string }",
      "math.js": "export function half(n) { return n / 2; }",
      "math.d.ts": "/** Halves. */ export declare function half(n: number): number;",
      "nowhere.d.ts": "export declare function nowhere(): void;",
      "globals.d.ts":
        'interface Options { loud?: boolean }\ndeclare module "pad" { export namespace pad { type Width = 1 | 2; } }',
    },
  );
  assert.deepEqual(said(all), []);
  assert.deepEqual(signatures(all), [
    "half(n: number)",
    "f(user: { name: string }, options: { loud?: boolean }, width: 1 | 2)",
  ]);
  assert.equal(all.tools[0]?.description, "Halves.");
});

test("a name that two modules export is no tool, and what cannot be offered beside tools is named", () => {
  const all = found(
    `
      export * from "./one.ts";
      export * from "./two.ts";
      export * from "nowhere";
      export { far } from "elsewhere";
      export function own() {}
      export default { greet(name: string) { return name; }, limit: 3 };
    `,
    {
      "one.ts": "export function both(a: string) {}\nexport function own(a: 1) {}\nexport function same() {}",
      "two.ts": 'export function both(a: number) {}\nexport { same } from "./one.ts";',
    },
  );
  assert.deepEqual(signatures(all), ["same()", "own()"]);
  const own = said(all).filter((text) => !text.includes("already exported"));
  assert.deepEqual(own, [
    'warning: the package of "nowhere" was not added, so what it exports cannot be offered: run berth add nowhere',
    'warning: the package of "elsewhere" was not added, so { far } cannot be offered: run berth add elsewhere',
    "warning: greet of the default export cannot be offered; export each function by itself",
    'error: both: "./one.ts" and "./two.ts" export different functions of this name, so the module exports neither; write export { both } from … for the one that you mean',
  ]);
});
