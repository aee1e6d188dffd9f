import type { Access } from "../../access/access.ts";
import { bySignIn, type Principal } from "../../access/principal.ts";
import { BerthError } from "../../lib/errors.ts";
import type { RequestContext } from "../request-context.ts";
import { credentialOf, type Credential } from "./credential.ts";
import type { Resources } from "./resources.ts";
import type { SignIn, SignIns } from "./sign-ins.ts";

/**
 * Whose request it is; undefined where nobody is asked for a token and none was sent. Throws or rejects with
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
    // Who has no token that is good does not learn which tenants there are, where one is required.
    const { tenant } = required ? context.claimed : context.place;
    // A proxy in front may have logins of its own, where nobody is asked for a token here.
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
    // A cookie that has become void, where none is needed, is only in the way.
    return required ? principal : principal.catch(withoutIt);
  }
}

/** What it opens ends with the sign-in at the latest. */
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

/** Whoever shows a good token is told why the tenant is not served. */
async function refusedTo(found: ReturnType<Authenticate>, refusal: unknown): Promise<never> {
  await found;
  throw refusal;
}

function withoutIt(error: unknown): undefined {
  if (!(error instanceof BerthError)) throw error;
  return undefined;
}
