import { sql as contentAndNames } from "./0001-content-and-names.ts";
import { sql as records } from "./0002-records.ts";
import { sql as secrets } from "./0003-secrets.ts";
import { sql as tenants } from "./0004-tenants.ts";
import { sql as tokens } from "./0005-tokens.ts";
import { sql as holdersOfContent } from "./0006-holders-of-content.ts";
import { sql as oauthOfTenants } from "./0007-oauth-of-tenants.ts";
import { sql as holdersOfResults } from "./0008-holders-of-results.ts";
import { sql as audit } from "./0009-audit.ts";
import { sql as auditByKind } from "./0010-audit-by-kind.ts";
import { sql as replacedTenants } from "./0011-replaced-tenants.ts";
import { sql as auditOfAllByKind } from "./0012-audit-of-all-by-kind.ts";

/**
 * The steps from an empty database to today's, in order. A step that was released is never edited: the database
 * remembers how many it has taken (`user_version`), so a change is a new step at the end.
 */
export const migrations: readonly string[] = [
  contentAndNames,
  records,
  secrets,
  tenants,
  tokens,
  holdersOfContent,
  oauthOfTenants,
  holdersOfResults,
  audit,
  auditByKind,
  replacedTenants,
  auditOfAllByKind,
];
