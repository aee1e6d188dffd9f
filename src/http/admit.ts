import type { IncomingMessage, ServerResponse } from "node:http";
import type { Principal } from "../access/principal.ts";
import type { Admission } from "../admission/admission.ts";
import { BerthError } from "../errors.ts";
import { atClose } from "./at-close.ts";
import type { Authenticate } from "./access/authenticate.ts";
import { tenantOf } from "./place.ts";

const RESPONSE = Symbol("response");
type Entered = IncomingMessage & { [RESPONSE]?: ServerResponse };

export interface Admit {
  /** Counts a request to its tenant until it is answered. Throws `too_many_requests`. */
  readonly enter: (request: IncomingMessage, response: ServerResponse) => void;
  /** Finds out whose a request that entered is, and counts it to that one, too. */
  readonly authenticate: Authenticate;
}

/** Lets requests in as far as the limits of their tenants, and of who sends them, go. */
export function createAdmit(admission: Admission, authenticate: Authenticate): Admit {
  const count = (request: IncomingMessage, principal: Principal | undefined): Principal | undefined => {
    const response = (request as Entered)[RESPONSE];
    if (principal && response) atClose(response, admission.enterAs(principal));
    return principal;
  };
  return {
    enter(request, response) {
      const tenant = servedTenantOf(request);
      if (tenant === undefined) return;
      atClose(response, admission.enter(tenant));
      const { authorization, cookie } = request.headers;
      if (authorization !== undefined || cookie !== undefined) (request as Entered)[RESPONSE] = response;
    },
    authenticate(request) {
      const found = authenticate(request);
      return found instanceof Promise ? found.then((it) => count(request, it)) : count(request, found);
    },
  };
}

/** What there is to say of a tenant that is not served, the route says in its own way. */
function servedTenantOf(request: IncomingMessage): string | undefined {
  try {
    return tenantOf(request);
  } catch (error) {
    if (error instanceof BerthError) return undefined;
    throw error;
  }
}
