import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { tokenFor } from "../../commands/own-berth.ts";
import { openOwnFolder, shownFolder } from "../../commands/own-folder.ts";
import { editedText, readConfigFile, readValue, renderDiff, writeConfigFile } from "../../config-files/config-file.ts";
import { json } from "../../config-files/json-file.ts";
import { MCPS_FILE } from "../../image/image.ts";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson, isObject } from "../../lib/json.ts";
import { printable, printableLine } from "../../lib/printable.ts";
import type { ImportPlan } from "./plan.ts";
import type { Stored } from "./secret-plan.ts";

/** Where servers are imported to. */
export interface ImportTarget {
  /** As shown in questions. */
  readonly name: string;
  /** The address, if it is a running Berth. */
  readonly url?: string;
  readonly stored: Stored;
  readonly taken: (name: string) => boolean;
  /** The changes as a diff, without secrets. */
  preview(plan: ImportPlan): string;
  /** True if everything was saved. */
  save(plan: ImportPlan): Promise<boolean>;
}

const ENV_FILE = ".env";

/** The folder at hand: entries go to `mcps.json`, secrets to `.env`. */
export function openFolder(): ImportTarget {
  const { folder } = openOwnFolder();
  const file = readConfigFile(join(folder, MCPS_FILE), json);
  const envFile = readConfigFile(join(folder, ENV_FILE), json);
  const values = parseEnv(envFile.text ?? "") as Record<string, string>;
  const toParts = ({ servers }: ImportPlan) =>
    servers.map(({ name, entry }) => ({ path: [name], value: entry }) as const);
  return {
    name: MCPS_FILE,
    stored: new Map(Object.entries(values)),
    taken: (name) => readValue(file, [name]) !== undefined,
    preview(plan) {
      const parts = toParts(plan);
      const added = [...plan.secrets.keys()].map((name) => `+${name}=…\n`).join("");
      const env = added === "" ? "" : `--- ${ENV_FILE}\n+++ ${ENV_FILE}\n${added}`;
      return `--- ${MCPS_FILE}\n+++ ${MCPS_FILE}\n${renderDiff(file, editedText(file, parts, "add"), parts)}${env}`;
    },
    async save(plan) {
      const after = editedText(file, toParts(plan), "add");
      // Entries never name a secret that is not there yet.
      if (plan.secrets.size > 0) await writeConfigFile(envFile, withVariables(envFile.text ?? "", plan.secrets), true);
      await writeConfigFile(file, after);
      console.error(`Written to ${shownFolder(file.path)}.`);
      if (plan.secrets.size + plan.unset.size > 0) {
        console.error(
          `Secrets are in ${ENV_FILE}: start with \`berth dev --env-file ${ENV_FILE}\`, or set them with \`berth secret set\`.`,
        );
      }
      if (plan.secrets.size > 0 && existsSync(join(folder, ".git")) && !isIgnored(folder)) {
        console.error(`Add ${ENV_FILE} to .gitignore: it is not for the repository.`);
      }
      return true;
    },
  };
}

function isIgnored(folder: string): boolean {
  const { text = "" } = readConfigFile(join(folder, ".gitignore"), json);
  return /^\/?\.env(?:\*|\.\*)?\s*$/m.test(text);
}

function withVariables(text: string, variables: ReadonlyMap<string, string>): string {
  const start = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const after = start + Array.from(variables, ([name, value]) => `${name}=${quoted(name, value)}\n`).join("");
  const read = parseEnv(after) as Record<string, string>;
  const wrong = [...variables].find(([name, value]) => read[name] !== value);
  if (wrong) throw new BerthError("import_refused", `the value of ${wrong[0]} cannot be written to ${ENV_FILE}`);
  return after;
}

function quoted(name: string, value: string): string {
  const quote = ["'", '"', "`"].find((each) => !value.includes(each) && (each !== '"' || !value.includes("\\")));
  if (quote === undefined) throw new BerthError("import_refused", `the value of ${name} has all kinds of quotes`);
  return `${quote}${value}${quote}`;
}

/** A running Berth: entries and secrets are saved through its API. */
export async function openRunning(address: string): Promise<ImportTarget> {
  const ask = api(address);
  const [entries, secrets] = await Promise.all([namesAt(ask, "entries"), namesAt(ask, "secrets")]);
  return {
    name: address,
    url: address,
    stored: new Map([...secrets].map((name) => [name, true as const])),
    taken: (name) => entries.has(name),
    preview: ({ servers }) =>
      servers
        .map(({ name, entry }) => `--- /dev/null\n+++ ${name}\n${indentedJson(entry).replaceAll(/^/gm, "+")}\n`)
        .map((text) => printable(text))
        .join(""),
    async save({ servers, secrets: values }) {
      for (const [name, value] of values) {
        await ask("PUT", `secrets/${name}`, { body: JSON.stringify({ value }), isNew: true });
      }
      let isWhole = true;
      for (const { name, entry } of servers) {
        const draft = { entry: name, files: { [name]: `${indentedJson(entry)}\n` } };
        try {
          await ask("PUT", `entries/${encodeURIComponent(name)}`, { body: JSON.stringify(draft), isNew: true });
          console.error(`"${name}" was added.`);
        } catch (error) {
          if (!(error instanceof BerthError)) throw error;
          isWhole = false;
          console.error(printable(`"${name}" was not added: ${printableLine(error.message)}`));
        }
      }
      return isWhole;
    },
  };
}

type Ask = (method: string, path: string, options?: { body?: string; isNew?: boolean }) => Promise<unknown>;

function api(address: string): Ask {
  if (!URL.canParse(address) || !/^https?:$/.test(new URL(address).protocol)) {
    throw new BerthError("invalid_params", `"${printableLine(address)}" is not an http or https URL`);
  }
  const token = tokenFor(address);
  return async (method, path, { body, isNew } = {}) => {
    const headers = {
      Accept: "application/json",
      ...(body !== undefined && { "Content-Type": "application/json" }),
      ...(isNew && { "If-None-Match": "*" }),
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    };
    const url = `${address.replace(/\/+$/, "")}/api/${path}`;
    const response = await fetch(url, {
      method,
      headers,
      ...(body !== undefined && { body }),
      redirect: "error",
    }).catch((cause: Error) => {
      throw new BerthError("upstream_not_started", `no Berth answers at ${address}`, { cause });
    });
    const answer: unknown = await response.json().catch(() => undefined);
    if (response.ok) return answer;
    const { error } = isObject(answer) ? answer : {};
    const message =
      isObject(error) && typeof error["message"] === "string" ? error["message"] : `it answered ${response.status}`;
    throw new BerthError("import_refused", message);
  };
}

async function namesAt(ask: Ask, list: "entries" | "secrets"): Promise<Set<string>> {
  const names = new Set<string>();
  for (let path: string | undefined = list; path !== undefined;) {
    const answer: unknown = await ask("GET", path);
    if (!isObject(answer)) break;
    const { [list]: items, next } = answer;
    for (const item of Array.isArray(items) ? items : []) if (isObject(item)) names.add(String(item["name"]));
    path = typeof next === "string" ? `${list}?cursor=${encodeURIComponent(next)}` : undefined;
  }
  return names;
}
