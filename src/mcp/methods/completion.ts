import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import type { MethodCall } from "../protocol.ts";

const NOTHING = { values: [], total: 0, hasMore: false };

/**
 * `completion/complete`: for a prompt's argument or a template's variable; an argument without a completer has no
 * values.
 */
export async function complete({ catalog, codec, params, principal, signal }: MethodCall): Promise<Text> {
  const { ref, argument, context } = params;
  if (!isObject(argument) || typeof argument["name"] !== "string" || typeof argument["value"] !== "string") {
    throw new BerthError("invalid_params", '"argument" needs a name and a value, both texts');
  }
  const completer = catalog.completer(referenceOf(ref, catalog), argument["name"]);
  const given = isObject(context) && isObject(context["arguments"]) ? context["arguments"] : {};
  const completion = completer
    ? await completer.complete(argument["value"], given as JsonObject, { principal, signal })
    : NOTHING;
  return codec.result(catalog, { completion });
}

function referenceOf(ref: unknown, { contract }: MethodCall["catalog"]): string {
  if (isObject(ref) && ref["type"] === "ref/prompt") {
    const prompt = contract.prompts.find(({ name }) => name === ref["name"]);
    if (prompt) return prompt.name;
  }
  if (isObject(ref) && ref["type"] === "ref/resource") {
    const template = contract.resourceTemplates.find(({ uriTemplate }) => uriTemplate === ref["uri"]);
    if (template) return template.uriTemplate;
  }
  throw new BerthError("invalid_params", '"ref" names no prompt and no resource template of this server');
}
