/**
 * Every error that can reach a person or a client, in one table. Thrown at the cause as `BerthError` and translated
 * once at the edge: `http/` reads `status`, `mcp/` reads `rpc`, the command line prints `message`.
 */
export const errors = {
  parse_error: { status: 400, rpc: -32700, message: "The body is not valid JSON" },
  invalid_request: { status: 400, rpc: -32600, message: "Not a JSON-RPC 2.0 request" },
  method_not_found: { status: 404, rpc: -32601, message: "No such method" },
  invalid_params: { status: 400, rpc: -32602, message: "Invalid parameters" },
  internal: { status: 500, rpc: -32603, message: "Internal error" },
  not_initialized: { status: 400, rpc: -32002, message: "The connection is not initialized" },
  header_mismatch: { status: 400, rpc: -32020, message: "A header does not match the body" },
  missing_capability: { status: 400, rpc: -32021, message: "The client lacks a capability that this call needs" },
  unsupported_version: { status: 400, rpc: -32022, message: "Unsupported protocol version" },

  tenant_not_found: { status: 404, rpc: -32602, message: "No such tenant" },
  tenant_suspended: { status: 403, rpc: -32602, message: "This tenant is suspended" },
  tenant_exists: { status: 409, rpc: -32602, message: "A tenant of that name exists already" },
  tenant_invalid: { status: 422, rpc: -32602, message: "The tenant's settings are not valid" },
  tenant_file_invalid: { status: 422, rpc: -32602, message: "This file cannot be imported, and nothing was changed" },
  starting: { status: 503, rpc: -32603, message: "Berth is starting; try again in a second" },
  server_not_found: { status: 404, rpc: -32602, message: "No such server" },
  server_disabled: { status: 403, rpc: -32602, message: "This server is disabled" },
  release_withdrawn: { status: 410, rpc: -32602, message: "This release was withdrawn" },
  server_refused: { status: 503, rpc: -32603, message: "This server cannot be served" },
  tool_not_found: { status: 404, rpc: -32602, message: "No such tool" },
  tool_failed: { status: 422, rpc: -32603, message: "The tool failed" },
  input_required: { status: 409, rpc: -32603, message: "The tool needs input from its caller" },
  resource_not_found: { status: 400, rpc: -32602, message: "No such resource" },
  legacy_resource_not_found: { status: 400, rpc: -32002, message: "No such resource" },
  resource_too_large: { status: 413, rpc: -32603, message: "The resource is larger than the limit" },
  too_many_tasks: { status: 503, rpc: -32603, message: "Too many tasks are running" },
  guest_failed: { status: 200, rpc: -32603, message: "The server's own code failed" },
  session_not_found: { status: 404, rpc: -32600, message: "No such session; initialize again" },
  too_many_requests: { status: 429, rpc: -32603, message: "Too many requests" },
  too_many_processes: { status: 429, rpc: -32603, message: "Too many processes" },
  no_descriptors: { status: 503, rpc: -32603, message: "Berth can open no more files and connections for now" },
  state_full: { status: 507, rpc: -32603, message: "State limit exceeded" },
  state_invalid: { status: 422, rpc: -32602, message: "This cannot be stored as state" },
  state_conflict: { status: 412, rpc: -32603, message: "The state was changed by someone else" },
  state_not_found: { status: 404, rpc: -32602, message: "No such key in the state" },
  storage_full: { status: 507, rpc: -32603, message: "Storage limit exceeded" },
  too_many_sessions: { status: 503, rpc: -32603, message: "Too many sessions are in use" },
  too_many_bodies: { status: 503, rpc: -32603, message: "Too many request bodies are being received" },
  too_many_streams: { status: 503, rpc: -32603, message: "Too many streams are open" },
  too_many_questions: { status: 429, rpc: -32603, message: "Too many questions are waiting for clients" },
  answer_lost: { status: 404, rpc: -32603, message: "The answer was lost" },
  cancelled: { status: 200, rpc: -32800, message: "The request was cancelled" },
  batch_too_large: { status: 413, rpc: -32603, message: "The answers to this batch are larger than the limit" },
  body_too_large: { status: 413, rpc: -32600, message: "The body is larger than the limit" },
  unsupported_media_type: { status: 415, rpc: -32600, message: "Content-Type must be application/json" },
  not_acceptable: { status: 406, rpc: -32600, message: "Accept must allow application/json" },
  method_not_allowed: { status: 405, rpc: -32600, message: "This address does not support that method" },
  forbidden_origin: { status: 403, rpc: -32600, message: "This origin is not allowed" },
  forbidden_site: { status: 403, rpc: -32600, message: "Pages of other sites may not call tools" },
  forbidden_host: { status: 403, rpc: -32600, message: "This Host header is not allowed" },
  not_found: { status: 404, rpc: -32600, message: "Not found" },

  profile_not_found: { status: 404, rpc: -32602, message: "No such profile" },
  profile_invalid: { status: 422, rpc: -32602, message: "The profile cannot be used" },
  profile_exists: { status: 409, rpc: -32602, message: "A profile of that name exists already" },
  contract_changed: {
    status: 409,
    rpc: -32603,
    message: "The server's contract has changed since the profile was created",
  },
  content_missing: { status: 404, rpc: -32603, message: "No content with this CID" },
  content_corrupt: { status: 500, rpc: -32603, message: "Stored bytes do not match their CID" },
  name_conflict: { status: 412, rpc: -32603, message: "The name was changed by someone else" },
  secret_invalid: { status: 422, rpc: -32602, message: "The secret cannot be stored" },
  secret_not_found: { status: 404, rpc: -32602, message: "No such secret" },
  secrets_unavailable: { status: 503, rpc: -32603, message: "The secrets cannot be opened" },
  store_failed: { status: 503, rpc: -32603, message: "The store failed" },
  store_uncertain: {
    status: 503,
    rpc: -32603,
    message: "The disk failed during this write: the change is made, but a power cut may undo it",
  },
  backup_failed: { status: 500, rpc: -32603, message: "Nothing was copied" },
  edit_refused: { status: 422, rpc: -32603, message: "The edit has problems, and nothing was changed" },
  edit_breaking: { status: 409, rpc: -32603, message: "The edit would break callers, and nothing was changed" },
  precondition_required: { status: 428, rpc: -32600, message: "A write must name the version that it replaces" },
  token_missing: { status: 401, rpc: -32600, message: "A token is required here" },
  unauthorized: { status: 401, rpc: -32600, message: "This token is not valid here" },
  forbidden: { status: 403, rpc: -32600, message: "The token does not permit this" },
  token_required: { status: 403, rpc: -32600, message: "This requires a token, not only a browser sign-in" },
  programs_refused: { status: 403, rpc: -32600, message: "Starting programs is not permitted here" },
  token_invalid: { status: 422, rpc: -32602, message: "The token cannot be created" },
  token_not_found: { status: 404, rpc: -32602, message: "No such token, or it was already revoked" },
  issuer_unavailable: { status: 503, rpc: -32603, message: "The authorization server does not answer" },
  write_forbidden: { status: 403, rpc: -32600, message: "This request may not change anything" },
  read_only: { status: 403, rpc: -32603, message: "This instance was started read-only" },
  bad_sources: { status: 422, rpc: -32603, message: "The sources have problems" },
  image_stale: { status: 409, rpc: -32603, message: "The image does not match its sources" },
  image_invalid: { status: 422, rpc: -32603, message: "The image cannot be read" },
  check_failed: { status: 503, rpc: -32603, message: "A value could not be checked" },
  compiler_failed: { status: 503, rpc: -32603, message: "The compiler failed" },
  packages_refused: { status: 422, rpc: -32603, message: "The packages cannot be used, and nothing was changed" },
  packages_unavailable: { status: 503, rpc: -32603, message: "The packages could not be fetched" },
  client_file_invalid: { status: 422, rpc: -32603, message: "The client's file was not changed" },
  import_refused: { status: 422, rpc: -32602, message: "The file cannot be imported" },
  config_invalid: { status: 500, rpc: -32603, message: "The configuration is not valid" },
  launcher_invalid: { status: 422, rpc: -32602, message: "The launcher URI is not valid" },
  upstream_not_started: { status: 503, rpc: -32603, message: "The upstream cannot be started or reached" },
  upstream_ended: { status: 502, rpc: -32603, message: "The upstream has ended; try again" },
  upstream_timeout: { status: 504, rpc: -32603, message: "The upstream took too long" },
  upstream_protocol: { status: 502, rpc: -32603, message: "The upstream broke the protocol" },
  upstream_refused: { status: 502, rpc: -32603, message: "The upstream answered with an error" },
  upstream_busy: { status: 503, rpc: -32603, message: "The upstream is too busy; try again" },
  upstream_changed: { status: 503, rpc: -32603, message: "The upstream has changed" },
  sandbox_unavailable: { status: 503, rpc: -32603, message: "Guest code cannot be isolated here" },
} as const satisfies Record<string, { status: number; rpc: number; message: string }>;

export type ErrorCode = keyof typeof errors;

export class BerthError extends Error {
  readonly code: ErrorCode;
  /** Plain data for programs; becomes `error.data` in JSON-RPC. Never contains a secret or a path of the host. */
  readonly data: Record<string, unknown> | undefined;

  /** `detail` says what exactly was wrong and how to fix it; it is appended to the table's message. */
  constructor(code: ErrorCode, detail?: string, options: { data?: Record<string, unknown>; cause?: unknown } = {}) {
    super(detail ? `${errors[code].message}: ${detail}` : errors[code].message, { cause: options.cause });
    this.name = "BerthError";
    this.code = code;
    this.data = options.data;
  }

  /** The message without the table's part. */
  get detail(): string {
    return this.message.slice(errors[this.code].message.length + 2);
  }

  get status(): number {
    return errors[this.code].status;
  }

  get rpc(): number {
    return errors[this.code].rpc;
  }
}
