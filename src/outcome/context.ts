import { isObject, type JsonObject, type JsonText } from "../lib/json.ts";

/** Keys of `_meta` that carry a call's context (P3). */
export const TOOL_KEY = "computer.jp/tool";
export const CONTEXT_KEY = "computer.jp/context";

/** The information that a tool gets about its call in addition to the arguments. */
export interface CallContext {
  readonly name: string;
  readonly arguments: JsonObject | JsonText;
  readonly answers: JsonObject;
  /** From the configuration of the host or the caller. */
  readonly options: JsonObject;
  readonly action: "run" | "format_arguments";
  /** The folder that the call is about, if any. */
  readonly root?: string;
}

/**
 * The members of `_meta` that carry the context, the same for every kind of tool. Empty if they would be of no use to
 * the tool: no answers, no options, no folder and the usual action.
 */
export function contextMeta({ name, arguments: args, answers, options, action, root }: CallContext): JsonObject {
  const isUsual = isEmpty(answers) && isEmpty(options) && action === "run" && root === undefined;
  if (isUsual) return {};
  return {
    [TOOL_KEY]: {
      name,
      // Long arguments stay text until everything is serialized.
      arguments: args as JsonObject,
      ...(!isEmpty(answers) && { answers }),
      ...(!isEmpty(options) && { options }),
    },
    [CONTEXT_KEY]: { action, ...(root !== undefined && { root }) },
  };
}

export type CallerContext = Partial<Pick<CallContext, "answers" | "options" | "action" | "root">>;

/** Like `readContextMeta`; undefined for a request without any context, as most are. */
export function readCallerContext(meta: unknown): CallerContext | undefined {
  if (!isObject(meta) || (meta[TOOL_KEY] === undefined && meta[CONTEXT_KEY] === undefined)) return undefined;
  return readContextMeta(meta);
}

/**
 * Reads the context in a request's `_meta`. A malformed value counts as absent: the keys are not Berth's own, and must
 * not make a call fail.
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
