import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { BerthError } from "../../lib/errors.ts";
import type { ProfileMeta, ProfileTool } from "./profile.ts";
import type { ProfileFiles } from "./save.ts";

const OWN_FIELDS = new Set(["server", "launcher", "tools", "tested_with", "parameters"]);

/**
 * A whole profile in one JSON object, as a person or a model writes it (seed 000, "Profile Design"): the way to reach
 * the server is at the top or under `launcher`, and `tools` has each tool by its name. Throws `profile_invalid`.
 */
export function readGivenProfile(value: Json): ProfileFiles {
  if (!isObject(value)) throw new BerthError("profile_invalid", "it must be a JSON object");
  const given: JsonObject = value;
  const { launcher = {}, tools = {}, tested_with: tested = {} } = given;
  for (const [name, part] of Object.entries({ launcher, tools, tested_with: tested })) {
    if (!isObject(part)) throw new BerthError("profile_invalid", `/${name} must be an object`);
  }
  const rest = Object.entries(given).filter(([name]) => !OWN_FIELDS.has(name));
  const meta = { ...(launcher as JsonObject), ...Object.fromEntries(rest) } as ProfileMeta;
  return {
    meta,
    tools: Object.fromEntries(
      Object.entries(tools as JsonObject).map(([name, tool]) => [name, withTested(name, tool, tested as JsonObject)]),
    ),
  };
}

function withTested(name: string, tool: Json, tested: JsonObject): ProfileTool {
  if (!isObject(tool)) throw new BerthError("profile_invalid", `/tools/${name} must be an object`);
  const queries = tested[name];
  return { tool: name, ...(queries !== undefined && { tested_with: queries }), ...tool } as ProfileTool;
}
