import { ICONS_MAX } from "../contract/icons.ts";
import { folderNameProblem } from "../folders/folders.ts";
import type { Json, JsonObject } from "../lib/json.ts";
import { nameFault } from "../secrets/secret-rules.ts";
import type { ConfigPlace } from "./config-place.ts";
import { consentToolFault } from "./consent-field.ts";
import { ENVIRONMENT_NAME_SCHEMA, ENVIRONMENT_NAMES_MAX, readEnvironment } from "./environment-fields.ts";
import { variableNameProblem, type FieldType } from "./fields.ts";
import type { FormLine } from "./form-line.ts";
import { namesReader, readLimits, readNetwork, readRetainCalls } from "./grants-fields.ts";
import { readIcons } from "./icons-field.ts";

/** Properties of a field from which its validation, its form, its JSON Schema and its documentation are derived. */
export interface EntryField {
  readonly type: FieldType;
  /** Its JSON Schema, in addition to its type. Values outside of an `enum` are refused. */
  readonly schema?: JsonObject;
  /** The only kind of server that has the field, and the reason, which ends the message for the other kind. */
  readonly only?: readonly [kind: "definitions" | "upstreams", why: string];
  /** For a field that is the CID of content: the words for the content, before its server, and the tab that shows it. */
  readonly cid?: { readonly file: string; readonly use: readonly [words: string, tab?: string] };
  /** The feature that is required to serve a server with this field. */
  readonly feature?: string;
  /** The right to change it, if it takes more than changing the entry. */
  readonly right?: "secrets" | "network" | "folders" | "variables" | "upstream" | "approvals";
  /** Its values, beginning with the one that withholds least. A change to an earlier one takes the right to approve. */
  readonly strictness?: readonly Json[];
  /**
   * True if running code may retain what the field granted: another value ends the connections of the server's guests.
   */
  readonly isGrant?: true;
  readonly form?: FormLine;
  /** The property of `ServerEntry` that `read` provides; by default of the same name. */
  readonly as?: string;
  /** Reads a value, or the absence of one. `before` has the values of the fields above. */
  readonly read?: (value: never, place: ConfigPlace, before: never) => unknown;
}

const readVariableNames = namesReader(variableNameProblem);

/**
 * The fields of an entry of `mcps`, in the order in which messages, the form and the JSON Schema list them. The comment of a
 * field is its description in mcps.schema.json and in docs/reference.md.
 */
export const entryFields = {
  /**
   * The server's code: a .ts or .sh file in a source, a CID in the variable. Without it, the definition stored under
   * the server's name is used.
   */
  definition: { type: "text", cid: { file: "the definition", use: ["the source of", "code"] } },
  /** The location of the entry: a JSON file in a source, a CID in the variable. It is then the only field. */
  config_cid: { type: "text" },
  /** True if the entry is active. */
  enabled: {
    type: "boolean",
    schema: { default: true },
    form: { label: "Serving", control: "check", text: "Enabled: clients can use this server" },
  },
  /** If false, the server is not served by MCP at all. */
  mcp_enabled: { type: "boolean", schema: { default: true } },
  /** Purpose of the server; clients receive it as its instructions. */
  description: {
    type: "text",
    form: { label: "Description", control: "text", hint: "Clients get it as the server's instructions.", rows: 3 },
  },
  /** An upstream, instead of a definition: a launcher URI such as mcp+npx://… or mcp+https://… */
  upstream: {
    type: "text",
    only: ["upstreams", ""],
    right: "upstream",
    form: { label: "Upstream", control: "text", hint: "Its launcher URI: mcp+npx://…, mcp+uvx://…, mcp+https://…" },
  },
  /**
   * Instead of "upstream": the program that is the upstream, by its name or path, as clients' configurations write it, with
   * "args", "env" and "cwd".
   */
  command: { type: "text", schema: { minLength: 1 }, only: ["upstreams", ""], right: "upstream" },
  /** Arguments of "command". ${NAME} stands for the same as in "env". */
  args: {
    type: "list",
    schema: { items: { type: "string" } },
    only: ["upstreams", 'it belongs to "command"'],
    right: "upstream",
  },
  /** The folder in which "command" runs. Default: a new empty one. */
  cwd: { type: "text", only: ["upstreams", 'it belongs to "command"'], right: "upstream" },
  /**
   * Which changes of an upstream's tools and prompts are withheld until a person approves them: any, those that are not
   * known to be harmless (breaking), or none. Other changes are accepted, and reported on the server's page and in the
   * audit log.
   */
  hold: {
    type: "text",
    schema: { enum: ["any", "breaking", "none"], default: "any" },
    only: ["upstreams", "the offer of a definition changes only when someone saves it"],
    strictness: ["none", "breaking", "any"],
    form: {
      label: "When it changes",
      control: "hold",
      hint: "Withheld items are not served until a person approves them. New items are always served.",
      choices: [
        ["any", "withhold every change (any)"],
        ["breaking", "withhold all but compatible changes (breaking)"],
        ["none", "accept every change (none)"],
      ],
      covers: ["hold_texts", "schema_validation"],
    },
  },
  /**
   * With "hold": "breaking": whether new or changed text that models read (descriptions, titles, defaults,
   * instructions) is withheld as well.
   */
  hold_texts: {
    type: "boolean",
    schema: { default: true },
    only: ["upstreams", "the offer of a definition changes only when someone saves it"],
    strictness: [false, true],
  },
  /**
   * If something is withheld: only that waits for approval (warn), or the whole server (error). "ignore" is an earlier
   * form of "hold": "none".
   */
  schema_validation: {
    type: "text",
    schema: { enum: ["warn", "error", "ignore"], default: "warn" },
    strictness: ["ignore", "warn", "error"],
  },
  /**
   * If several processes serve together: whether the upstream runs once for all of them (the default for a program) or
   * in each (the default for a remote server).
   */
  runs: {
    type: "text",
    schema: { enum: ["once", "everywhere"] },
    only: ["upstreams", "code of definitions runs in each process that serves it"],
    form: {
      label: "Several processes",
      control: "choice",
      hint: "By default, a program runs once for all processes, and each process connects to a remote server itself.",
      choices: [
        ["", "as usual"],
        ["once", "once for all (once)"],
        ["everywhere", "in each (everywhere)"],
      ],
    },
  },
  /**
   * Contract of the upstream that is approved from the start. In the image it comes from upstreams.lock.json; a source
   * has no such field.
   */
  contract_cid: {
    type: "text",
    cid: { file: "the approved contract", use: ["the approved contract of", "upstream"] },
    // Another lock approves another offer, and without a lock the first offer of an upstream counts as approved.
    right: "approvals",
    form: { label: "Files", control: "files" },
  },
  /** Icons of the server, which clients may show: https: URLs, or images as data: URIs of at most 16 KiB. */
  icons: { type: "list", schema: { maxItems: ICONS_MAX, items: { $ref: "#/$defs/icon" } }, read: readIcons },
  /** Tools by name, each overriding what its function declares. */
  tools: {
    type: "object",
    schema: { propertyNames: { $ref: "#/$defs/offeredName" }, additionalProperties: { $ref: "#/$defs/tool" } },
    form: { label: "Tools", control: "tools", covers: ["auto_discover"] },
  },
  /**
   * True if functions of the definition that `tools` does not name become tools as well. Default: true, unless `tools`
   * names any.
   */
  auto_discover: { type: "boolean" },
  /** Resources and templates by name. */
  resources: { type: "object", schema: { additionalProperties: { $ref: "#/$defs/resource" } } },
  /** Prompts that are written out, by name. */
  prompts: {
    type: "object",
    schema: { propertyNames: { $ref: "#/$defs/offeredName" }, additionalProperties: { $ref: "#/$defs/prompt" } },
  },
  /**
   * A TypeScript module whose generateTools(serverName, context) returns further tools: a file in a source, a CID in
   * the variable.
   */
  tools_transform_cid: {
    type: "text",
    cid: { file: "a module that adds tools", use: ["the module that adds tools to"] },
  },
  /** A TypeScript module whose generateResources(serverName, context) returns further resources. */
  resources_transform_cid: {
    type: "text",
    cid: { file: "a module that adds resources", use: ["the module that adds resources to"] },
  },
  /** A TypeScript module whose generatePrompts(serverName, context) returns further prompts. */
  prompts_transform_cid: {
    type: "text",
    cid: { file: "a module that adds prompts", use: ["the module that adds prompts to"] },
  },
  /**
   * Hosts that the server's code may reach: api.example.org, api.example.org:8443, *.example.org or *. The default port
   * is 443. Default: none.
   */
  network: {
    type: "list",
    schema: {
      items: {
        type: "string",
        pattern: "^(?:\\*|(?:\\*\\.)?[^*/?#@\\\\\\s:\\[\\]]+|\\[[0-9A-Fa-f:.]+\\])(?::[0-9]{1,5})?$",
      },
    },
    only: ["definitions", "an upstream can reach whatever its machine can reach"],
    right: "network",
    isGrant: true,
    form: {
      label: "Network",
      control: "names",
      hint: "Hosts that its code may reach: api.example.com, *.example.com, api.example.com:8443. None by default.",
      one: "host",
    },
    read: readNetwork,
  },
  /**
   * Names of the secrets that this server receives: a function reads context.secret(name), a script its environment, an
   * upstream's URI ${NAME}.
   */
  secrets: {
    type: "list",
    feature: "secrets",
    schema: { items: { type: "string", pattern: "^(?!BERTH_)[A-Za-z_][A-Za-z0-9_]{0,127}$" } },
    right: "secrets",
    isGrant: true,
    form: { label: "Secrets", control: "names", hint: "Secrets that its code may read.", one: "secret" },
    read: namesReader((name) => {
      const fault = nameFault(name);
      return fault && `In "secrets", ${fault}`;
    }),
  },
  /**
   * Names of the variables that the server's code may read. Content by CID can be read only if one of them is or names
   * it. Default: all variables and all content.
   */
  variables: {
    type: "list",
    schema: { items: { type: "string", pattern: "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" } },
    only: ["definitions", "an upstream reads no variables"],
    right: "variables",
    isGrant: true,
    form: {
      label: "Variables",
      control: "names",
      hint: "Variables that its code may read.",
      one: "variable",
      all: "All variables of the tenant",
    },
    read: (raw: readonly Json[] | undefined, place: ConfigPlace) => raw && readVariableNames(raw, place),
  },
  /**
   * Environment variables of a definition's code, or of "command". ${NAME} stands for a secret that "secrets" lists, else
   * for a variable that it may read, or, for "command" of the default tenant, of Berth's environment; $${ for a literal ${.
   * A changed value applies from the next call on.
   */
  env: {
    type: "object",
    schema: {
      maxProperties: ENVIRONMENT_NAMES_MAX,
      propertyNames: ENVIRONMENT_NAME_SCHEMA,
      additionalProperties: { type: "string" },
    },
    only: ["definitions", "an upstream gets its variables in its launcher URI, as env.NAME=value"],
    isGrant: true,
    read: readEnvironment,
  },
  /**
   * Names of folders of the machine that the server's code can access, as declared by the operator (BERTH_FOLDERS): in
   * a function's context.folders, in a script's BERTH_FOLDER_<name>. Default: none.
   */
  folders: {
    type: "list",
    schema: { items: { type: "string", pattern: "^[A-Za-z][A-Za-z0-9_]{0,63}$" } },
    only: ["definitions", "an upstream sees the files that its user sees"],
    right: "folders",
    isGrant: true,
    read: namesReader(folderNameProblem),
  },
  /**
   * Tools for which each call, with exactly its arguments, needs the consent of the user, by the names that clients
   * see; "*" for all tools. A client that cannot ask its user cannot call them. Default: none.
   */
  consent: {
    type: "list",
    feature: "consents",
    schema: { items: { type: "string", pattern: "^(?:\\*|[A-Za-z0-9_./-]{1,128})$" } },
    form: {
      label: "Consent to calls",
      control: "names",
      hint: "Tools whose every call needs the consent of the user, by the names that clients know; * for all. None by default.",
      one: "tool",
    },
    read: namesReader(consentToolFault),
  },
  /** Limits on the calls of this server. Calls beyond them fail with an error that says when to try again. */
  limits: {
    type: "object",
    schema: {
      properties: {
        calls: { type: "integer", minimum: 1, description: "Calls that run at the same time." },
        calls_per_second: { type: "integer", minimum: 1, description: "Calls that may start per second." },
      },
      additionalProperties: false,
    },
    form: {
      label: "Limits",
      control: "numbers",
      hint: "Calls beyond the limit fail with a time to try again. Empty: no limit of its own.",
      choices: [
        ["calls", "Concurrent calls"],
        ["calls_per_second", "Calls per second"],
      ],
    },
    read: readLimits,
  },
  /**
   * How long calls are retained with their arguments and results, such as 12h or 7d, without secrets, for those who may
   * change the server. Default: they are not retained.
   */
  retain_calls: {
    type: "text",
    schema: { pattern: "^[1-9][0-9]{0,4}[mhd]$" },
    form: {
      label: "Retain calls",
      control: "choice",
      hint: "With their arguments and results, without secrets, for those who may change this server: on the tab Calls.",
      choices: [
        ["", "no"],
        ["1h", "for an hour"],
        ["1d", "for a day"],
        ["7d", "for 7 days"],
        ["30d", "for 30 days"],
      ],
    },
    feature: "retained-calls",
    as: "retainCallsMs",
    read: readRetainCalls,
  },
  /** Settings by tool name: a function reads its own from context.options, a script from BERTH_OPTIONS. */
  options: {
    type: "object",
    schema: { additionalProperties: { type: "object" } },
    form: { label: "Options", control: "options", hint: "The JSON that a tool reads from context.options." },
  },
} as const satisfies Record<string, EntryField>;

type Table = typeof entryFields;
export type EntryFieldName = keyof Table;

/** As `entryFields`, for code that does not depend on a certain field. */
export const entryFieldList = Object.entries(entryFields) as readonly (readonly [EntryFieldName, EntryField])[];

/** The properties of `ServerEntry` that single fields provide. */
export type ReadFields = {
  readonly [
    Name in EntryFieldName as Table[Name] extends { read: unknown }
      ? Table[Name] extends { as: infer As extends string }
        ? As
        : Name
      : never
  ]: Table[Name] extends { read: (...args: never) => infer Value } ? Value : never;
};

export type CidField = {
  [Name in EntryFieldName]: Table[Name] extends { cid: unknown } ? Name : never;
}[EntryFieldName];

/** The types of fields, for `readFields`. */
export const entryTypes = Object.fromEntries(entryFieldList.map(([name, { type }]) => [name, type])) as {
  readonly [Name in EntryFieldName]: Table[Name]["type"];
};

/** The fields of an entry that are CIDs. */
export const cidFields = entryFieldList.flatMap(([name, { cid }]) => (cid ? [name as CidField] : []));
