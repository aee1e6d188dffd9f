import { randomUUID } from "node:crypto";
import type { InputRequest } from "../../host/catalog/catalog.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { SessionFacts } from "./session.ts";

/** The capability that a client lacks for a question, as its revision names it; undefined when it lacks none. */
export function whatLacks(
  { version, capabilities }: SessionFacts,
  { method, params }: InputRequest,
): string | undefined {
  switch (method) {
    case "elicitation/create":
      return elicitationLacks(version, capabilities["elicitation"], params["mode"] === "url");
    case "sampling/createMessage": {
      const { sampling } = capabilities;
      if (!isObject(sampling)) return "sampling";
      return params["tools"] !== undefined && !isObject(sampling["tools"]) ? "sampling with tools" : undefined;
    }
    case "roots/list":
      return isObject(capabilities["roots"]) ? undefined : "roots";
    default:
      return String(method);
  }
}

/** Elicitation came with 2025-06-18, its URLs with 2025-11-25; `{}` stands for forms only. */
function elicitationLacks(version: string, elicitation: unknown, byUrl: boolean): string | undefined {
  if (!isObject(elicitation) || version < "2025-06-18") return "elicitation";
  if (byUrl) return isObject(elicitation["url"]) && version >= "2025-11-25" ? undefined : "elicitation by URL";
  const formsAlone = elicitation["url"] === undefined;
  return formsAlone || isObject(elicitation["form"]) ? undefined : "elicitation by form";
}

/** The parameters of a question as the client's revision knows them. */
export function questionParams({ version, capabilities }: SessionFacts, { method, params }: InputRequest): JsonObject {
  if (method === "elicitation/create") {
    if (params["mode"] === "url") return { elicitationId: randomUUID(), ...params };
    if (version >= "2025-11-25") return params;
    const { mode: _mode, ...form } = params;
    return form;
  }
  if (method === "sampling/createMessage") {
    const { includeContext, tools, toolChoice, ...rest } = params;
    const { sampling } = capabilities;
    const context = version < "2025-11-25" || (isObject(sampling) && isObject(sampling["context"]));
    return {
      ...rest,
      ...(includeContext !== undefined && (context || includeContext === "none") && { includeContext }),
      ...(tools !== undefined && { tools }),
      ...(toolChoice !== undefined && { toolChoice }),
    };
  }
  return params;
}

/** The capabilities that a server may use, without a client's own additions: a token has to stay small. */
export function usedCapabilities(capabilities: unknown): JsonObject {
  if (!isObject(capabilities)) return {};
  const used: JsonObject = {};
  for (const [name, parts] of Object.entries(USED)) {
    const given = capabilities[name];
    if (!isObject(given)) continue;
    used[name] = Object.fromEntries(parts.filter((part) => isObject(given[part])).map((part) => [part, {}]));
  }
  return used;
}

const USED: Readonly<Record<string, readonly string[]>> = {
  roots: [],
  sampling: ["tools", "context"],
  elicitation: ["form", "url"],
};
