import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Ran } from "./commands.ts";
import { berthInProcess, type InProcessOptions } from "./in-process.ts";

export interface Home extends InProcessOptions {
  readonly root: string;
  readonly env: Record<string, string>;
  readonly run: (args: readonly string[], options?: InProcessOptions) => Promise<Ran>;
  readonly folder: (name: string) => string;
  readonly read: (name: string, file: string) => Promise<Record<string, unknown>>;
  readonly all: (name: string) => Promise<Record<string, string>>;
  readonly edit: (name: string, file: string, fields: object) => Promise<void>;
  readonly save: (name: string, meta: object, tools: Readonly<Record<string, object>>) => Promise<void>;
}

/** A user's folder of profiles, removed after the test. */
export async function homeOf(t: TestContext): Promise<Home> {
  const root = await mkdtemp(join(tmpdir(), "berth-home-"));
  t.after(() => rm(root, { recursive: true, force: true }));
  const env = { XDG_DATA_HOME: root, BIOMCP_VERSION: "1" };
  const folder = (name: string): string => join(root, "berth", "profiles", "mcp", name);
  const path = (name: string, file: string): string => join(folder(name), `${file}.json`);
  const write = (name: string, file: string, value: object): Promise<void> =>
    writeFile(path(name, file), JSON.stringify(value));
  const read = async (name: string, file: string): Promise<Record<string, unknown>> =>
    JSON.parse(await readFile(path(name, file), "utf8")) as Record<string, unknown>;
  return {
    root,
    env,
    run: (args, options) => berthInProcess(["profile", ...args], { env, ...options }),
    folder,
    read,
    async all(name) {
      const files = await readdir(folder(name));
      const texts = await Promise.all(files.map((file) => readFile(join(folder(name), file), "utf8")));
      return Object.fromEntries(files.map((file, index) => [file, texts[index]!]));
    },
    edit: async (name, file, fields) => write(name, file, { ...(await read(name, file)), ...fields }),
    async save(name, meta, tools) {
      await mkdir(folder(name), { recursive: true });
      await write(name, "_meta", meta);
      for (const [tool, value] of Object.entries(tools)) await write(name, tool, value);
    },
  };
}
