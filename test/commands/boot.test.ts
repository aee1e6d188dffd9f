import assert from "node:assert/strict";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import { compileKey } from "../../src/discover/key.ts";
import { loadBounds } from "../../src/executor/load-trials.ts";
import { writeImage } from "../../src/image/write.ts";
import { holdTimeouts } from "../support/clock.ts";
import { exits, type Ran } from "../support/commands.ts";
import { shareCompiler } from "../support/compiler.ts";
import {
  countingCompiling,
  generated,
  removeTemporaryFolders,
  sourcesWith,
  temporaryFolder,
  writeSources,
  type Sources,
} from "../support/image-sources.ts";
import { berthInProcess } from "../support/in-process.ts";

after(removeTemporaryFolders);
after(holdTimeouts(loadBounds.loadElapsedMs));

/** The folder in which Berth remembers its images. */
const cache = temporaryFolder();

shareCompiler();

const boot = (...args: string[]): Promise<Ran> => berthInProcess(["boot", ...args], { env: { XDG_CACHE_HOME: cache } });

const greeter = `import { greeting } from "./words.ts";

/**
 * Greets somebody.
 * @param name whom
 */
export function greet(name: string): string {
  return greeting + name;
}
`;

const sources = (files: Sources = {}): string =>
  writeSources(
    sourcesWith(
      { greeter: { definition: "greeter.ts" }, shell: { definition: "shell.sh" } },
      {
        "greeter.ts": greeter,
        "words.ts": `export const greeting = "Hello, ";\n`,
        "shell.sh": "#!/bin/sh\n# Says hello.\necho hello\n",
        ...files,
      },
    ),
  );

/** Sources and their image, made once; tests get copies. */
let made: { readonly from: string; readonly out: string } | undefined;
async function madeImage(): Promise<[from: string, out: string]> {
  if (made === undefined) {
    made = { from: sources(), out: join(temporaryFolder(), "boot") };
    assert.equal((await boot("--from", made.from, "--out", made.out)).code, 0);
  }
  const [from, out] = [temporaryFolder(), join(temporaryFolder(), "boot")];
  cpSync(made.from, from, { recursive: true });
  cpSync(made.out, out, { recursive: true });
  return [from, out];
}

describe("berth boot", () => {
  test("makes no image of definitions that do not load, and says where and why", async () => {
    const out = join(temporaryFolder(), "boot");
    const definition = (top: string): string =>
      `${top}\n/** Does. */\nexport function does(): string { return "it"; }\n`;
    const from = writeSources(
      sourcesWith(
        {
          fetches: { definition: "fetches.ts" },
          endless: { definition: "endless.ts" },
          good: { definition: "good.ts", secrets: ["API_TOKEN"], env: { TOKEN: "${API_TOKEN}" } },
        },
        {
          "fetches.ts": definition('export const answer = await fetch("https://example.org/");'),
          "endless.ts": definition("for (;;);"),
          // An environment has placeholders then.
          "good.ts": definition("if (!(globalThis as any).process.env.TOKEN) throw new Error('no token');"),
        },
      ),
    );
    const { stderr } = await exits(2, boot("--from", from, "--out", out));
    assert.match(stderr, /^fetches\.ts:1:29: error: .*host can only be asked while a call is in flight.*move "fetch"/m);
    assert.match(stderr, /^endless\.ts(?::1:\d+)?: error: .*more than 2000 ms of CPU time/m);
    assert.doesNotMatch(stderr, /good\.ts/);
    assert.equal(existsSync(join(out, "default.boot.cid")), false);
  });

  test("a second time does no work, --check compiles anew and is content, and all say so", async () => {
    const [from, out] = await madeImage();
    for (const [compiled, ...flags] of [[0], [0, "--if-stale"], [2, "--check"]] as [number, ...string[]][]) {
      const { stdout } = await exits(0, boot("--from", from, "--out", out, "--json", ...flags));
      const result = JSON.parse(stdout);
      assert.deepEqual([result.status, result.compiled, result.differences], ["unchanged", compiled, []]);
      assert.equal(result.images.default, readFileSync(join(out, "default.boot.cid"), "utf8").trim());
    }
  });

  test("type errors are warnings in an image, and with --strict there is none, although they were known before", async () => {
    const [from, out] = await madeImage();
    writeFileSync(join(from, "greeter.ts"), greeter.replace("+ name", "+ name.lenght"));
    const made = await exits(0, boot("--from", from, "--out", out));
    assert.match(made.stderr, /^Compiling 1 definition\n[^\r]*Wrote the image/);
    assert.match(made.stderr, /greeter\.ts:8:26: warning: .*Did you mean 'length'\? \[type-error\]/);
    for (const flags of [[], ["--fresh"], ["--if-stale"]]) {
      const strict = await exits(2, boot("--from", from, "--out", out, "--strict", ...flags));
      assert.match(strict.stderr, /greeter\.ts:8:26: error: .*\n[^]*1 error in /);
    }
  });

  test("--check fails with 1 for a changed source and for every damaged byte, and changes nothing (C1)", async () => {
    const [from, out] = await madeImage();
    const check = (): Promise<Ran> => boot("--from", from, "--out", out, "--check", "--json");

    const [cid] = readdirSync(join(out, "content"));
    const good = readFileSync(join(out, "content", cid!));
    writeFileSync(join(out, "content", cid!), "damaged");
    const damaged = await exits(1, check());
    assert.deepEqual(JSON.parse(damaged.stdout).differences, [{ file: `content/${cid}`, is: "different" }]);
    assert.equal(readFileSync(join(out, "content", cid!), "utf8"), "damaged");
    writeFileSync(join(out, "content", cid!), good);
    assert.equal((await check()).code, 0);

    writeFileSync(join(from, "words.ts"), `export const greeting = "Ahoy, ";\n`);
    const { code, stderr } = await boot("--from", from, "--out", out, "--check");
    assert.equal(code, 1);
    assert.match(stderr, /different: mcps\.json\n/);
    assert.match(stderr, /Run `berth boot`/);
    assert.equal((await boot("--from", from, "--out", out, "--if-stale")).code, 0);
    assert.equal((await check()).code, 0);
  });

  test("an image of foreign code, whose every CID agrees, is found by --check and made again", async () => {
    const [from, out] = await madeImage();
    const foreign = await generated(from, { fresh: true }, { ...countingCompiling(), key: compileKey });
    writeImage(out, foreign);
    const bootAs = async (...flags: string[]): Promise<unknown[]> => {
      const { code, stdout } = await boot("--from", from, "--out", out, "--json", ...flags);
      const { status, compiled } = JSON.parse(stdout);
      return [code, status, compiled];
    };
    assert.deepEqual(await bootAs("--if-stale"), [0, "unchanged", 0], "a quick look takes the image's word");
    assert.deepEqual(await bootAs("--check"), [1, "stale", 2]);
    assert.deepEqual(await bootAs(), [0, "written", 2]);
    assert.deepEqual(await bootAs(), [0, "unchanged", 0]);
  });

  test("bad sources give 2, every problem with its place, and leave the image alone", async () => {
    const [from, out] = await madeImage();
    const before = readFileSync(join(out, "image.lock.json"), "utf8");
    writeFileSync(join(from, "greeter.ts"), "export function greet( {\n");
    writeFileSync(join(from, "default.boot.source.json"), `{\n  "server": []\n}`);
    const { stderr } = await exits(2, boot("--from", from, "--out", out));
    assert.match(
      stderr,
      /^default\.boot\.source\.json:2:3 \/server: error: .*\[unknown-field\]\n {4}> 2 \| {3}"server": \[\]\n/m,
    );
    assert.match(stderr, /^greeter\.ts:\d:\d+: error: /m);
    assert.match(stderr, /errors in /);
    assert.equal(readFileSync(join(out, "image.lock.json"), "utf8"), before);

    const asData = await exits(2, boot("--from", from, "--out", out, "--json"));
    const result = JSON.parse(asData.stdout);
    assert.equal(result.status, "bad-sources");
    assert.ok(result.problems.length >= 2);
  });

  test("--if-stale leaves an image without sources as it is; without an image either it fails", async () => {
    const [from, out] = await madeImage();
    rmSync(from, { recursive: true });
    const { code, stderr } = await boot("--from", from, "--out", out, "--if-stale");
    assert.equal(code, 0);
    assert.match(stderr, /no sources/);
    assert.equal((await boot("--from", from, "--out", join(out, "none"), "--if-stale")).code, 2);
    const asked = await exits(2, boot("--from", from, "--out", out));
    assert.match(asked.stderr, /mcps\.source\.json: error: There is no file/);
    assert.ok(existsSync(join(out, "default.boot.cid")));
  });
});
