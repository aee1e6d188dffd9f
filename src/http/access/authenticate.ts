import type { Access } from "../../access/access.ts";
import { bySignIn, type Principal } from "../../access/principal.ts";
import { BerthError } from "../../lib/errors.ts";
import type { RequestContext } from "../request-context.ts";
import { credentialOf, type Credential } from "./credential.ts";
import type { Resources } from "./resources.ts";
import type { SignIn, SignIns } from "./sign-in.ts";

/**
 * Finds the principal of a request; undefined when no token is required and none was sent. Throws or rejects with
 * `token_missing`, `unauthorized`, or `issuer_unavailable`.
 */
export type Authenticate = (context: RequestContext) => Principal | undefined | Promise<Principal | undefined>;

export function createAuthenticate(access: Access, resources: Resources, signIns: SignIns): Authenticate {
  const { required } = access;

  return (context) => {
    const { authorization, cookie } = context.request.headers;
    if (authorization === undefined && cookie === undefined) {
      if (required) throw missing();
      return undefined;
    }
    // Where a token is required, a client without a valid one must not learn which tenants exist.
    const { tenant } = required ? context.claimed : context.place;
    // Where no token is required, a proxy in front may have logins of its own.
    const credential = credentialOf(context.request, tenant, required ? "refused" : "ignored");
    if (!credential) {
      if (required) throw missing();
      return undefined;
    }
    const principal = principalOfCredential(credential, tenant, context);
    return context.refusal === undefined ? principal : refusedTo(principal, context.refusal);
  };

  function principalOfCredential(
    credential: Credential,
    tenant: string,
    context: RequestContext,
  ): Principal | undefined | Promise<Principal | undefined> {
    const principalBy = (token: string) => access.principalOf(token, tenant, () => resources.of(context));
    if ("token" in credential) return principalBy(credential.token);
    const principal = signedIn(signIns.find(tenant, credential.signIn), principalBy);
    // Where no token is required, a void cookie is ignored.
    return required ? principal : principal.catch(withoutIt);
  }
}

/** The principal's access ends with the sign-in at the latest. */
async function signedIn(
  found: Promise<SignIn>,
  principalBy: (token: string) => Principal | Promise<Principal>,
): Promise<Principal> {
  const { id, token, until } = await found;
  const principal = await principalBy(token);
  return bySignIn(principal, { id, until: Math.min(until, principal.until ?? until) });
}

function missing(): BerthError {
  return new BerthError("token_missing", "send Authorization: Bearer <token>");
}

/** Tells the holder of a valid token why the tenant is not served. */
async function refusedTo(found: ReturnType<Authenticate>, refusal: unknown): Promise<never> {
  await found;
  throw refusal;
}

function withoutIt(error: unknown): undefined {
  if (!(error instanceof BerthError)) throw error;
  return undefined;
}
