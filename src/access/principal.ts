/**
 * Who makes a request, and what that permits. This folder owns who may do what: tokens, what they are good for, and
 * what an authorization server says. It knows no HTTP and no MCP: whoever takes requests finds the principal of each,
 * hands it on, and asks it. An undefined principal means that nobody is asked for a token here, and may do everything.
 */
export interface Principal {
  /** The same for all requests of one token, or of one client of one person; good for limits, logs and audits. */
  readonly id: string;
  /** The tenant whose it is; it permits nothing of any other. */
  readonly tenant: string;
  /**
   * Whether it may do this: to one tool, to a server as such, or without a server to the tenant as a whole. A server
   * of which only some tools may be called permits `call` as such; without a server only what is limited to no server
   * permits anything.
   */
  permits(action: Action, server?: string, tool?: string): boolean;
}

/** `read`: lists, resources, prompts and pages. `edit`: what is hosted. `admin`: tokens, tenants and approvals. */
export type Action = "call" | "read" | "edit" | "admin";
