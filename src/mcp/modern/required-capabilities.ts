import type { InputRequest, InputRequests } from "../../host/catalog/catalog.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";

/**
 * The capabilities object that these questions need and the client did not declare; undefined when nothing is missing.
 * Specification: `basic/patterns/mrtr`, server requirement 7, and the pages of `client/`.
 */
export function missingCapabilities(capabilities: JsonObject, inputRequests: InputRequests): JsonObject | undefined {
  const missing: Record<string, JsonObject> = {};
  for (const request of Object.values(inputRequests)) {
    const [name, parts] = neededBy(request);
    const declared = capabilities[name];
    const lacking = isObject(declared) ? parts.filter((part) => !has(name, declared, part)) : parts;
    if (isObject(declared) && lacking.length === 0) continue;
    missing[name] = { ...missing[name], ...Object.fromEntries(lacking.map((part) => [part, {}])) };
  }
  return Object.keys(missing).length > 0 ? missing : undefined;
}

/** The capability that a question needs, and the parts of it. */
function neededBy({ method, params }: InputRequest): [capability: string, parts: string[]] {
  switch (method) {
    case "elicitation/create":
      return ["elicitation", [params["mode"] === "url" ? "url" : "form"]];
    case "sampling/createMessage": {
      const { tools, toolChoice, includeContext = "none" } = params;
      const usesTools = tools !== undefined || toolChoice !== undefined;
      return ["sampling", [...(usesTools ? ["tools"] : []), ...(includeContext === "none" ? [] : ["context"])]];
    }
    case "roots/list":
      return ["roots", []];
  }
}

function has(capability: string, declared: Record<string, unknown>, part: string): boolean {
  if (isObject(declared[part])) return true;
  // An elicitation capability without modes means forms, as it did before there were modes.
  return capability === "elicitation" && part === "form" && declared["url"] === undefined;
}
