import { isObject, type JsonObject, type JsonText } from "../lib/json.ts";

/** Keys of `_meta` under which a call's context travels (P3, seed 002 "unified tool context"). */
export const TOOL_KEY = "computer.jp/tool";
export const CONTEXT_KEY = "computer.jp/context";

/** What a tool is told of its call besides the arguments. */
export interface CallContext {
  readonly name: string;
  readonly arguments: JsonObject | JsonText;
  /** By the questions' ids. */
  readonly answers: JsonObject;
  /** From the configuration of whoever hosts or calls the tool. */
  readonly options: JsonObject;
  readonly action: "run" | "format_arguments";
  /** The folder that the call is about, if any. */
  readonly root?: string;
}

/**
 * The members of `_meta` that say it, the same for every way to a tool. Empty while there is nothing to say that a
 * tool would not know anyway: no answers, no options, no folder and the usual action.
 */
export function contextMeta({ name, arguments: args, answers, options, action, root }: CallContext): JsonObject {
  const isUsual = isEmpty(answers) && isEmpty(options) && action === "run" && root === undefined;
  if (isUsual) return {};
  return {
    [TOOL_KEY]: {
      name,
      // Long ones stay the text that they are until all is written.
      arguments: args as JsonObject,
      ...(!isEmpty(answers) && { answers }),
      ...(!isEmpty(options) && { options }),
    },
    [CONTEXT_KEY]: { action, ...(root !== undefined && { root }) },
  };
}

/** What a caller says of its call's context. */
export type CallerContext = Partial<Pick<CallContext, "answers" | "options" | "action" | "root">>;

/** As `readContextMeta`; undefined for a request that has nothing to say of it, as most have not. */
export function callerContextOf(meta: unknown): CallerContext | undefined {
  if (!isObject(meta) || (meta[TOOL_KEY] === undefined && meta[CONTEXT_KEY] === undefined)) return undefined;
  return readContextMeta(meta);
}

/**
 * What a request's `_meta` says of its context. Anything that is not of the right form counts as not said: the keys
 * belong to others, and a call must not fail because of them.
 */
export function readContextMeta(meta: unknown): CallerContext {
  if (!isObject(meta)) return {};
  const tool = isObject(meta[TOOL_KEY]) ? meta[TOOL_KEY] : {};
  const context = isObject(meta[CONTEXT_KEY]) ? meta[CONTEXT_KEY] : {};
  const { answers, options } = tool;
  const { root } = context;
  const action = typeof context["action"] === "string" ? context["action"].toLowerCase() : undefined;
  return {
    ...(isObject(answers) && { answers: answers as JsonObject }),
    ...(isObject(options) && { options: options as JsonObject }),
    ...((action === "run" || action === "format_arguments") && { action }),
    ...(typeof root === "string" && { root }),
  };
}

function isEmpty(value: JsonObject): boolean {
  for (const _name in value) return false;
  return true;
}
