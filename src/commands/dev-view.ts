import type { CalledTool, CallRecord, Hide, LiveEvent } from "../host/journal/record.ts";
import type { CallResult } from "../host/offers/catalog.ts";
import { LongResult } from "../host/offers/long-result.ts";
import { jsonPrefix, cutText } from "../lib/cut-text.ts";
import { isObject, JsonText, type Json, type JsonObject } from "../lib/json.ts";
import { LongJson } from "../lib/long-text.ts";
import { printable, printableLine } from "../lib/printable.ts";
import { fixed } from "../limits/fixed.ts";
import type { Style } from "./styles.ts";

/** The arguments of a call, and its result, as far as `berth dev` shows each. */
const bounds = fixed({ devShownCharacters: 160 });

export interface DevViewOptions {
  readonly write: (line: string) => void;
  readonly style: Style;
  /** Shows only what went wrong. */
  readonly isQuiet: boolean;
  /** Replaces the names of files in a server's texts by the person's own. */
  readonly ownFiles: (server: string, text: string) => string;
  /** A call that takes longer is shown before it ends; 500 ms by default. */
  readonly slowMs?: number;
}

type Of<Kind extends LiveEvent["kind"]> = Extract<LiveEvent, { kind: Kind }>;

/**
 * Shows what happens on the servers that somebody works on, in lines for their terminal: calls with arguments, time, and result
 * or error; what functions print and log, ask, and reach. A call that takes a while, or does something visible, is shown
 * as soon as that happens, and again at its end. Names, texts and values come from others: they must not control the
 * terminal.
 */
export class DevView {
  readonly #options: DevViewOptions;
  readonly #running = new Map<CalledTool, Running[]>();

  constructor(options: DevViewOptions) {
    this.#options = options;
  }

  readonly onLiveEvent = (event: LiveEvent): void => {
    switch (event.kind) {
      case "began":
        return this.#began(event);
      case "ended":
        return this.#ended(event);
      case "used":
        return this.#used(event);
      case "line":
        return this.#line(event);
      case "fetched":
        return this.#fetched(event);
      case "connected":
        return this.#connected(event);
    }
  };

  #line({ tool, line: { level, message } }: Of<"line">): void {
    if (this.#options.isQuiet && !SERIOUS.has(level)) return;
    this.#showBegun(tool.server, tool.tool);
    const { ownFiles } = this.#options;
    const text = ownFiles(tool.server, typeof message === "string" ? message : JSON.stringify(message));
    const colour = SERIOUS.has(level) ? "yellow" : "dim";
    this.#say(nameOf(tool), `${this.#options.style(colour, `${level}:`)} ${printable(text)}`);
  }

  #began({ tool, beganAt, args, answers, hide }: Of<"began">): void {
    if (this.#options.isQuiet) return;
    if (answers && Object.keys(answers).length > 0)
      this.#say(nameOf(tool), `was answered: ${this.#answers(answers, hide)}`);
    const running: Running = { beganAt, args, hide, isShown: false, timer: undefined };
    running.timer = setTimeout(() => this.#showBegun(tool.server, tool.tool), this.#options.slowMs ?? SLOW_MS).unref();
    this.#running.set(tool, [...(this.#running.get(tool) ?? []), running]);
  }

  #ended({ call, hide }: Of<"ended">): void {
    const { tool, outcome, ms, args, result, asked } = call;
    this.#forget(tool, call.beganAt);
    const what = nameOf(tool);
    const shown = this.#arguments(args, hide);
    const took = this.#took(ms);
    if (outcome === "error" || outcome === "invalid") {
      const how = this.#options.style("red", outcome === "invalid" ? "was refused" : "failed");
      return this.#say(what, `${shown}${how}${took}: ${this.#failure(call, hide)}`);
    }
    if (this.#options.isQuiet) return;
    if (asked) return this.#say(what, `${shown}asks${took}: ${this.#questions(asked, hide)}`);
    const retried = call.retries > 0 ? `, after ${call.retries + 1} attempts` : "";
    this.#say(what, `${shown}→ ${result ? this.#result(result, hide) : "leads to another answer"}${took}${retried}`);
  }

  #used({ what, server, name, args, ms, answer, failed, hide }: Of<"used">): void {
    const item = `${server} ${what} ${printableLine(this.#cut(name, hide))}`;
    const shown = this.#arguments(args, hide);
    const took = this.#took(ms);
    if (failed) {
      const said = this.#options.ownFiles(server, failed.stack ?? failed.message);
      return this.#say(item, `${shown}${this.#options.style("red", "failed")}${took}: ${printable(hide(said))}`);
    }
    if (!this.#options.isQuiet) this.#say(item, `${shown}→ ${this.#answer(answer, hide)}${took}`);
  }

  #fetched({ server, item, method, url, status, refused, ms }: Of<"fetched">): void {
    this.#reached(server, item, `${method} ${url}`, status === undefined ? "" : ` → ${status}`, refused, ms);
  }

  #connected({ server, item, host, refused, ms }: Of<"connected">): void {
    this.#reached(server, item, `connects to ${host}`, "", refused, ms);
  }

  #reached(
    server: string,
    item: string | undefined,
    what: string,
    how: string,
    refused: string | undefined,
    ms: number,
  ) {
    if (this.#options.isQuiet && refused === undefined) return;
    if (item !== undefined) this.#showBegun(server, item);
    const name = item === undefined ? server : `${server}.${item}`;
    const said = printableLine(cutText(what, LINE_UNITS_MAX));
    if (refused === undefined) return this.#say(printableLine(name), `${said}${how}${this.#took(ms)}`);
    this.#say(printableLine(name), `${said} ${this.#options.style("yellow", "failed")}: ${printable(refused)}`);
  }

  /** Shows calls of a tool that go on, before what they do. */
  #showBegun(server: string, item: string): void {
    for (const [tool, calls] of this.#running) {
      if (tool.server !== server || tool.tool !== item) continue;
      for (const call of calls) {
        clearTimeout(call.timer);
        // Its arguments may hold a secret that it has only now been given.
        if (!call.isShown) this.#say(nameOf(tool), `${this.#arguments(call.args, call.hide)}…`);
        call.isShown = true;
      }
    }
  }

  #forget(tool: CalledTool, beganAt: number): void {
    const calls = this.#running.get(tool) ?? [];
    const over = calls.find((call) => call.beganAt === beganAt);
    clearTimeout(over?.timer);
    const others = calls.filter((call) => call !== over);
    if (others.length > 0) this.#running.set(tool, others);
    else this.#running.delete(tool);
  }

  /** `name="Ada" times=2 `, as `berth call` takes them; empty, or with a space at its end. */
  #arguments(args: JsonObject | JsonText, hide: Hide): string {
    if (args instanceof JsonText) return `${this.#cut(args.text, hide)} `;
    const names = Object.keys(args);
    if (names.length === 0) return "";
    const room = this.#room;
    let text = "";
    for (const name of names) {
      if (text.length > room) break;
      text += `${text && " "}${name.slice(0, room)}=${jsonPrefix(args[name]!, room)}`;
    }
    return `${this.#cut(text, hide)} `;
  }

  #failure({ tool, failure, result }: CallRecord, hide: Hide): string {
    const said = failure?.stack ?? failure?.message ?? (result && textsIn(result)) ?? "the call was refused";
    return printable(hide(this.#options.ownFiles(tool.server, said)));
  }

  #result(result: CallResult, hide: Hide): string {
    if (result instanceof LongResult) return `a result of ${result.parts.size.toLocaleString("en-US")} characters`;
    if (result.structuredContent !== undefined) return this.#value(result.structuredContent, hide);
    return result.content.length === 0 ? "nothing" : result.content.map((block) => this.#block(block, hide)).join(", ");
  }

  #block(block: JsonObject, hide: Hide): string {
    const { type, text, data, mimeType, resource } = block;
    if (type === "text") return this.#value(text!, hide);
    const held: Record<string, unknown> = isObject(resource) ? resource : { blob: data, mimeType };
    const { blob, mimeType: kind } = held;
    if (typeof blob !== "string") return this.#value(block, hide);
    const shown = typeof kind === "string" ? `${printableLine(kind)}, ` : "";
    return `[${shown}${Buffer.byteLength(blob, "base64").toLocaleString("en-US")} bytes]`;
  }

  /** The contents of a resource, or the messages of a prompt. */
  #answer(answer: unknown, hide: Hide): string {
    if (answer instanceof LongJson) return "a long answer";
    if (!isObject(answer)) return "";
    const { contents, messages, inputRequests } = answer;
    if (isObject(inputRequests)) return `questions: ${this.#questions(inputRequests, hide)}`;
    const [only, more] = (Array.isArray(contents) ? contents : []) as JsonObject[];
    if (only && !more && typeof only["text"] === "string") return this.#value(only["text"], hide);
    return this.#value((contents ?? messages ?? answer) as Json, hide);
  }

  #questions(asked: object, hide: Hide): string {
    const each = Object.values(asked).map((request) => {
      const { method, params } = request as { readonly method: string; readonly params: JsonObject };
      const { message, requestedSchema, url } = params;
      if (method !== "elicitation/create") return `${method} ${this.#value(params, hide)}`;
      const fields =
        isObject(requestedSchema) && isObject(requestedSchema["properties"]) ? requestedSchema["properties"] : {};
      const more = typeof url === "string" ? url : Object.keys(fields).join(", ");
      return `${this.#value(message ?? "", hide)}${more && ` (${printableLine(this.#cut(more, hide))})`}`;
    });
    return each.join("; ");
  }

  #answers(answers: JsonObject, hide: Hide): string {
    const each = Object.values(answers).map((answer) => {
      if (!isObject(answer) || typeof answer["action"] !== "string") return this.#value(answer, hide);
      const { action, content } = answer;
      if (action !== "accept") return printableLine(action);
      return isObject(content) ? this.#arguments(content, hide).trim() : "yes";
    });
    return each.join("; ");
  }

  #value(value: Json, hide: Hide): string {
    return this.#cut(jsonPrefix(value, this.#room), hide);
  }

  /** Hides first: what the cut leaves of a secret would not be known as one. */
  #cut(text: string, hide: Hide): string {
    const { devShownCharacters } = bounds;
    return printableLine(cutText(hide(text.slice(0, this.#room)), devShownCharacters));
  }

  get #room(): number {
    return 4 * bounds.devShownCharacters;
  }

  #took(ms: number): string {
    const shown = ms < 1_000 ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
    return this.#options.style("dim", ` ${shown}`);
  }

  #say(name: string, text: string): void {
    const { write, style } = this.#options;
    write(`${style("dim", clock())} ${style("cyan", name)} ${text}`);
  }
}

interface Running {
  readonly beganAt: number;
  readonly args: JsonObject | JsonText;
  readonly hide: Hide;
  isShown: boolean;
  timer: NodeJS.Timeout | undefined;
}

const SLOW_MS = 500;
const LINE_UNITS_MAX = 500;
const SERIOUS: ReadonlySet<string> = new Set(["warning", "error", "critical", "alert", "emergency"]);

/** The time of day, for the beginning of a line. */
export function clock(): string {
  return new Date().toLocaleTimeString("en-GB");
}

function nameOf({ server, tool }: CalledTool): string {
  return printableLine(`${server}.${tool}`);
}

function textsIn({ content }: CallResult): string {
  return content.map(({ text }) => (typeof text === "string" ? text : "")).join("\n");
}
