import type { PromptContract, ResourceContract, ResourceTemplateContract, ToolContract } from "../contract/contract.ts";
import type { DiscoveredTool } from "../discover/discovery.ts";
import { isTemplate } from "../discover/uri-template.ts";
import { isObject, type JsonObject, type JsonSchema } from "../lib/json.ts";
import type { ConfiguredTool } from "./tool-fields.ts";

/** The contract of each thing that is offered, discovered or configured. */

export function discoveredToolContract(tool: DiscoveredTool): ToolContract {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema,
    ...(outputSchema !== null && { outputSchema }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

/** A configured field takes precedence over the discovered one. */
export function configuredToolContract(name: string, base: ToolContract, configured: ConfiguredTool): ToolContract {
  const title = configured.title ?? base.title;
  const description = configured.description ?? base.description;
  const outputSchema = configured.outputSchema ?? base.outputSchema;
  const annotations = { ...base.annotations, ...configured.annotations };
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    inputSchema: configured.inputSchema ?? withoutArguments(base.inputSchema, configured.arguments),
    ...(outputSchema !== undefined && { outputSchema }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

export function resourceContract(
  resource: Omit<ResourceContract, "uri"> & { uri: string },
): ResourceContract | ResourceTemplateContract {
  const { uri, name, title, description, mimeType } = resource;
  return {
    ...(isTemplate(uri) ? { uriTemplate: uri } : { uri }),
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(mimeType !== undefined && { mimeType }),
  };
}

export function promptContract({ name, title, description, arguments: args }: PromptContract): PromptContract {
  return {
    name,
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(args && args.length > 0 && { arguments: args }),
  };
}

function withoutArguments(schema: JsonSchema, fixed: JsonObject | undefined): JsonSchema {
  if (!fixed) return schema;
  const { properties, required, ...rest } = schema;
  const isFree = (name: unknown): boolean => !Object.hasOwn(fixed, name as string);
  const left = Object.entries(isObject(properties) ? properties : {}).filter(([name]) => isFree(name));
  const stillRequired = Array.isArray(required) ? required.filter(isFree) : [];
  return {
    ...rest,
    properties: Object.fromEntries(left),
    ...(stillRequired.length > 0 && { required: stillRequired }),
  };
}
