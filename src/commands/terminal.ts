import { createInterface, type Interface } from "node:readline";
import * as readline from "node:readline/promises";
import { stripVTControlCharacters } from "node:util";
import { toAbortSignal } from "../lib/cancellation.ts";
import { isObject, type Json, type JsonObject } from "../lib/json.ts";
import { printableText } from "../lib/printable.ts";
import type { Ask } from "../upstream/messages/request.ts";

/**
 * Lines from the person at the terminal. Standard output is for results, so questions go to stderr. Text that is typed
 * ahead waits for its question.
 */
export class Terminal {
  readonly #lines: string[] = [];
  #reader: Interface | undefined;
  #waiting: ((line: string | undefined) => void) | undefined;
  #isOver = false;

  /** Undefined where nobody can be asked. */
  static open(): Terminal | undefined {
    return process.stdin.isTTY && process.stderr.isTTY ? new Terminal() : undefined;
  }

  say(text: string): void {
    process.stderr.write(`${printableText(text)}\n`);
  }

  /** Undefined when the person ends the input instead of answering (Ctrl-D), or when the signal is aborted. */
  read(prompt: string, signal?: AbortSignal): Promise<string | undefined> {
    this.#reader ??= this.#open();
    process.stderr.write(printableText(prompt));
    const line = this.#lines.shift();
    if (line !== undefined || this.#isOver || signal?.aborted) return Promise.resolve(line);
    return new Promise((resolve) => {
      const end = (input: string | undefined): void => {
        signal?.removeEventListener("abort", onAbort);
        this.#waiting = undefined;
        resolve(input);
      };
      const onAbort = (): void => end(undefined);
      signal?.addEventListener("abort", onAbort);
      this.#waiting = end;
    });
  }

  close(): void {
    this.#reader?.close();
  }

  #open(): Interface {
    // Not as a terminal: the system's own line editing stays, and Ctrl-C stays a signal.
    const reader = createInterface({ input: process.stdin, terminal: false });
    reader.on("line", (line) => (this.#waiting ? this.#waiting(line) : this.#lines.push(line)));
    reader.on("close", () => {
      this.#isOver = true;
      this.#waiting?.(undefined);
    });
    return reader;
  }
}

/**
 * Asks a person a server's question to its client (`elicitation/create`): each field of a form separately, or to visit
 * a page. Returns the result of the request. Throws for a question that no person can be asked.
 */
export async function askPerson(
  terminal: Terminal,
  { method, params }: { readonly method: string; readonly params: JsonObject },
  signal?: AbortSignal,
): Promise<JsonObject> {
  if (method !== "elicitation/create") throw new Error(`a person cannot answer ${method}`);
  terminal.say(shown(params["message"]));
  if (params["mode"] === "url") {
    terminal.say(`  ${shown(params["url"])}`);
    const opened = await readField(terminal, "Opened?", { type: "boolean" }, true, signal);
    return opened === undefined ? { action: "cancel" } : { action: opened.value === true ? "accept" : "decline" };
  }
  const form = isObject(params["requestedSchema"]) ? params["requestedSchema"] : {};
  const fields = Object.entries(isObject(form["properties"]) ? form["properties"] : {});
  const required = Array.isArray(form["required"]) ? form["required"] : [];
  const content: [string, Json][] = [];
  for (const [name, field] of fields) {
    const described = isObject(field) ? field : {};
    const label = fields.length === 1 ? "" : shown(described["title"] ?? name);
    const given = await readField(terminal, label, described, required.includes(name), signal);
    if (!given) return { action: "cancel" };
    if (given.value !== undefined) content.push([name, given.value]);
  }
  return { action: "accept", content: Object.fromEntries(content) };
}

/** Asks until the answer fits. Undefined when the person gives up; without a value when none is required. */
async function readField(
  terminal: Terminal,
  label: string,
  field: Record<string, unknown>,
  isRequired: boolean,
  signal: AbortSignal | undefined,
): Promise<{ readonly value: Json | undefined } | undefined> {
  const kind = kindOf(field);
  const otherwise = field["default"] as Json | undefined;
  if (field["description"] !== undefined) terminal.say(`  ${shown(field["description"])}`);
  kind.choices?.forEach((choice, index) => terminal.say(`  ${index + 1}. ${shown(choice.title)}`));
  const hint = [label, `(${kind.hint})`, otherwise === undefined ? "" : `[${kind.show(otherwise)}]`];
  const prompt = `${hint.filter(Boolean).join(" ")}: `;
  for (;;) {
    const line = await terminal.read(prompt, signal);
    if (line === undefined) return undefined;
    const said = line.trim();
    if (said === "" && otherwise !== undefined) return { value: otherwise };
    if (said === "" && !isRequired) return { value: undefined };
    const value = kind.read(said);
    if (value !== undefined) return { value };
    terminal.say(`  Please answer: ${kind.hint}.`);
  }
}

interface Kind {
  readonly hint: string;
  readonly choices?: readonly Choice[];
  readonly show: (value: Json) => string;
  /** Undefined for an invalid answer. */
  readonly read: (said: string) => Json | undefined;
}

interface Choice {
  readonly value: string;
  readonly title: string;
}

function kindOf(field: Record<string, unknown>): Kind {
  const choices = choicesOf(field);
  if (choices) {
    const hint = `a number from 1 to ${choices.length}`;
    return { hint, choices, show: String, read: (said) => chosen(choices, said) };
  }
  switch (field["type"]) {
    case "boolean":
      return { hint: "y/n", show: (value) => (value === true ? "y" : "n"), read: readBoolean };
    case "number":
    case "integer":
      return { hint: "a number", show: String, read: (said) => readNumber(said, field["type"] === "integer") };
    case "array": {
      const several = choicesOf(isObject(field["items"]) ? field["items"] : {}) ?? [];
      const read = (said: string): Json | undefined => {
        const values = said.split(/[\s,]+/).map((each) => chosen(several, each));
        return values.every((value) => value !== undefined) ? values : undefined;
      };
      return { hint: "numbers, with commas between them", choices: several, show: JSON.stringify, read };
    }
    default:
      return { hint: "text", show: String, read: (said) => (said === "" ? undefined : said) };
  }
}

/** Undefined for a field whose values are not listed. */
export function choicesOf(field: Record<string, unknown>): readonly Choice[] | undefined {
  const { enum: values, enumNames: names } = field;
  if (Array.isArray(values)) {
    return values.map((value, index) => {
      const title: unknown = Array.isArray(names) ? names[index] : undefined;
      return { value: String(value), title: String(title ?? value) };
    });
  }
  const titled = field["oneOf"] ?? field["anyOf"];
  if (!Array.isArray(titled)) return undefined;
  return titled
    .filter(isObject)
    .map((each) => ({ value: String(each["const"]), title: String(each["title"] ?? each["const"]) }));
}

/** Chosen by number or by name. */
function chosen(choices: readonly Choice[], said: string): string | undefined {
  const byNumber = /^\d+$/.test(said) ? choices[Number(said) - 1] : undefined;
  return (byNumber ?? choices.find(({ value, title }) => value === said || title === said))?.value;
}

function readBoolean(said: string): boolean | undefined {
  if (/^(?:y|yes|true)$/i.test(said)) return true;
  return /^(?:n|no|false)$/i.test(said) ? false : undefined;
}

function readNumber(said: string, isWhole: boolean): number | undefined {
  const value = Number(said);
  return said !== "" && Number.isFinite(value) && (!isWhole || Number.isInteger(value)) ? value : undefined;
}

/** Makes a server's text safe to show: it must not move the cursor of the person's terminal. */
export function shown(value: unknown): string {
  const text = typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
  return stripVTControlCharacters(text).replaceAll(/(?![\n\t])\p{Cc}/gu, "");
}

/** Asks a person to confirm a change with y or n; `what` is for the case that nobody can be asked. */
export async function isConfirmed(question: string, what: string): Promise<boolean> {
  const terminal = Terminal.open();
  if (!terminal) {
    console.error(printableText(`There is no terminal to confirm ${what}; use --yes.`));
    return false;
  }
  try {
    return readBoolean((await terminal.read(`${question} (y/n) `))?.trim() ?? "") === true;
  } finally {
    terminal.close();
  }
}

/** Asks a person to confirm something by typing a name. */
export async function isTyped(name: string, question: string): Promise<boolean> {
  const terminal = readline.createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await terminal.question(question)).trim() === name;
  } finally {
    terminal.close();
  }
}

interface Clock {
  /** Stops while the question is answered. */
  asking<T>(answer: () => Promise<T>): Promise<T>;
}

interface Person {
  readonly ask: Ask;
  close(): void;
}

/** The person at the terminal, whose time for an answer does not count. Undefined where nobody can be asked. */
export function personAtTerminal(clock: Clock, interrupted: AbortSignal, before: () => void): Person | undefined {
  const terminal = Terminal.open();
  return (
    terminal && {
      ask: (question, signal) => {
        before();
        const either = AbortSignal.any([interrupted, ...(signal ? [toAbortSignal(signal)] : [])]);
        return clock.asking(() => askPerson(terminal, question, either));
      },
      close: () => terminal.close(),
    }
  );
}
