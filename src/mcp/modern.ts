import { BerthError } from "../errors.ts";
import type { Catalog } from "../host/catalog.ts";
import { isObject } from "../json.ts";
import { checkParameterHeaders, checkStandardHeaders, headerMarks, type HeaderMark } from "./headers.ts";
import type { Request } from "./json-rpc.ts";
import type { Codec, Method, Post } from "./protocol.ts";
import {
  isModern,
  META_CLIENT_CAPABILITIES,
  META_PROTOCOL_VERSION,
  META_SERVER_INFO,
  SUPPORTED_VERSIONS,
} from "./revisions.ts";
import { callTool, listTools } from "./tools.ts";

/**
 * How long a client may take a list as fresh without asking. A change is announced to those who listen; this is
 * for those who do not.
 */
const LIST_TTL_MS = 60_000;

/** The codec of 2026-07-28: stateless, each request carrying its version and its client's capabilities. */
export function createModernCodec(berthVersion: string): Codec {
  /** What every result of a release ends with: its type and who answered. */
  const tailOf = (catalog: Catalog): string => {
    const known = catalog.memo.get("modern:tail") as string | undefined;
    if (known !== undefined) return known;
    const serverInfo = { name: catalog.server, version: `${berthVersion}+${catalog.release}` };
    const tail = `"resultType":"complete","_meta":${JSON.stringify({ [META_SERVER_INFO]: serverInfo })}}`;
    catalog.memo.set("modern:tail", tail);
    return tail;
  };
  const cacheable = (catalog: Catalog, result: object): string =>
    `${JSON.stringify({ ...result, ttlMs: LIST_TTL_MS, cacheScope: "public" }).slice(0, -1)},${tailOf(catalog)}`;

  return {
    era: "modern",
    toolsPage: (catalog, page) => cacheable(catalog, page),
    callResult: (catalog, _tool, result) => `${JSON.stringify(result).slice(0, -1)},${tailOf(catalog)}`,
    methods: new Map<string, Method>([
      ["server/discover", ({ catalog }) => cacheable(catalog, discovery(catalog))],
      ["tools/list", listTools],
      ["tools/call", callTool],
    ]),
  };
}

/** Checks what each modern request must carry, in the order in which a client can mend it. */
export function checkModernRequest(request: Request, headers: Post["headers"]): void {
  const meta = request.params["_meta"];
  if (!isObject(meta) || typeof meta[META_PROTOCOL_VERSION] !== "string") {
    throw new BerthError("invalid_params", `"_meta" needs "${META_PROTOCOL_VERSION}"`);
  }
  checkStandardHeaders(headers, request);
  checkVersion(meta[META_PROTOCOL_VERSION]);
  if (!isObject(meta[META_CLIENT_CAPABILITIES])) {
    throw new BerthError("invalid_params", `"_meta" needs "${META_CLIENT_CAPABILITIES}", an object`);
  }
}

/** A tool may mark arguments that the client must repeat as headers; what a release marks is looked up once. */
export function checkMarkedArguments(request: Request, headers: Post["headers"], catalog: Catalog): void {
  const { name, arguments: args } = request.params;
  const tool = typeof name === "string" ? catalog.tool(name) : undefined;
  if (!tool) return;
  const key = `modern:headers:${tool.contract.name}`;
  let marks = catalog.memo.get(key) as HeaderMark[] | undefined;
  if (!marks) catalog.memo.set(key, (marks = headerMarks(tool)));
  if (marks.length > 0) checkParameterHeaders(headers, marks, args);
}

function checkVersion(requested: string): void {
  if (isModern(requested)) return;
  throw new BerthError("unsupported_version", requested, { data: { supported: SUPPORTED_VERSIONS, requested } });
}

function discovery(catalog: Catalog): object {
  const { description } = catalog.contract;
  return {
    supportedVersions: SUPPORTED_VERSIONS,
    capabilities: { tools: {} },
    ...(description !== undefined && { instructions: description }),
  };
}
