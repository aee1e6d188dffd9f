/**
 * Mistakes that a developer could make, each with the tests that have to report it.
 *
 * @typedef {object} Mutant
 * @property {string} file
 * @property {string} find occurs once in the file
 * @property {string} replace
 * @property {string[]} tests
 */

/** @type {Mutant[]} */
export const mutants = [
  {
    file: "src/access/oauth/access-tokens.ts",
    find: `requiredClaims: ["exp", "aud"],`,
    replace: `requiredClaims: ["aud"],`,
    tests: ["test/access/oauth-attacks.test.ts"],
  },
  {
    file: "src/access/rights.ts",
    find: `  "programs",\n  "secretValues",`,
    replace: `  "programs",`,
    tests: ["test/http/access/sign-in.test.ts"],
  },
  {
    file: "src/access/tokens.ts",
    find: `    if (principal.tenant !== tenant) throw unknown();\n`,
    replace: ``,
    tests: ["test/access/tokens.test.ts"],
  },
  {
    file: "src/admission/gate.ts",
    find: `if (this.#active >= (otherUse`,
    replace: `if (this.#active > (otherUse`,
    tests: ["test/admission/gate.test.ts"],
  },
  {
    file: "src/audit/verify.ts",
    find: `    if (chain !== null) this.#moved.add(chain);\n`,
    replace: ``,
    tests: ["test/audit/chain.test.ts"],
  },
  {
    file: "src/browser/editor/draft.ts",
    find: `sum + (our.toB - our.fromB) - (our.toA - our.fromA)`,
    replace: `sum + (our.toB - our.fromB)`,
    tests: ["test/browser/editor.test.ts"],
  },
  {
    file: "src/config-files/config-file.ts",
    find: `if (own.has(text.slice(from, to))) continue;`,
    replace: `if (!own.has(text.slice(from, to))) continue;`,
    tests: ["test/features/clients/client-files.test.ts"],
  },
  {
    file: "src/cluster/node-calls.ts",
    find: `    this.#taken.set(id, expires);\n`,
    replace: ``,
    tests: ["test/cluster/forward-attacks.test.ts"],
  },
  {
    file: "src/commands/tenant.ts",
    find: `(other) => other.name !== name && `,
    replace: `(other) => other.name === name && `,
    tests: ["test/commands/tenant.test.ts"],
  },
  {
    file: "src/compose/keys.ts",
    find: `proof("secret", bytes)`,
    replace: `proof("seal", bytes)`,
    tests: ["test/compose/keys.test.ts"],
  },
  {
    file: "src/config.ts",
    find: `/^127(\\.\\d{1,3}){3}$/`,
    replace: `/^127(\\.\\d{1,3}){3}/`,
    tests: ["test/http/server.test.ts"],
  },
  {
    file: "src/contract/app-policy.ts",
    find: ` && !reaches(text, own)`,
    replace: ``,
    tests: ["test/contract/app-policy.test.ts"],
  },
  {
    file: "src/contract/compare-schemas.ts",
    find: `if (gone.length > 0) findings.narrowed(`,
    replace: `if (gone.length > 0) findings.widened(`,
    tests: ["test/contract/compare.test.ts"],
  },
  {
    file: "src/discover/bundle/bundle-plugin.ts",
    find: `if (way !== "import-statement") {`,
    replace: `if (way === "require-call") {`,
    tests: ["test/discover/bundle/bundle.test.ts"],
  },
  {
    file: "src/discover/gather.ts",
    find: `if (each.isSymbolicLink()) problems.push(linkInSkills(path));\n      else if (`,
    replace: `if (`,
    tests: ["test/discover/assets/skills.test.ts"],
  },
  {
    file: "src/discover/typescript/input.ts",
    find: `const isOptional = parameter.isOptional || mayBeNothing(parameter.type, program.checker);`,
    replace: `const isOptional = parameter.isOptional;`,
    tests: ["test/discover/typescript/types.test.ts"],
  },
  {
    file: "src/discover/shell/shell.ts",
    find: `loader: /^(LD_|DYLD_)/,`,
    replace: `loader: /^LD_$/,`,
    tests: ["test/discover/shell/shell.test.ts"],
  },
  {
    file: "src/discover/typescript/types/object.ts",
    find: `return isDropped && (isOptional || (walker.direction === "output" && !isSignal));`,
    replace: `return isDropped && (isOptional || walker.direction === "output");`,
    tests: ["test/discover/typescript/results.test.ts"],
  },
  {
    file: "src/edits/create-edits.ts",
    find: `      if (expected !== undefined && expected !== made.current) throw moved(made.current, expected);\n`,
    replace: ``,
    tests: ["test/edits/live-edits.test.ts"],
  },
  {
    file: "src/entry/tool-fields.ts",
    find: `if (!text.includes('"$id":')) return undefined;`,
    replace: `if (!text.startsWith('{"$id":')) return undefined;`,
    tests: ["test/entry/problems.test.ts"],
  },
  {
    file: "src/executor/guest/fetch.mts",
    find: `    if (signal.aborted) throw signal.reason;\n`,
    replace: ``,
    tests: ["test/network/guest-fetches.test.ts"],
  },
  {
    file: "src/executor/launcher.ts",
    find: `folder.writable ? "--bind" : "--ro-bind"`,
    replace: `"--bind"`,
    tests: ["test/executor/folders.test.ts"],
  },
  {
    file: "src/executor/session.ts",
    find: `  if (call.isTask) return;\n`,
    replace: ``,
    tests: ["test/executor/questions.test.ts"],
  },
  {
    file: "src/folders/folders.ts",
    find: `return folder && (folder.tenants === "all" || folder.tenants.includes(tenant)) ? folder : undefined;`,
    replace: `return folder;`,
    tests: ["test/folders/folders.test.ts"],
  },
  {
    file: "src/features/profiles/explore/explore-server.ts",
    find: `new Set([exploreTool, callTool, draftProfileTool, saveProfileTool]`,
    replace: `new Set([exploreTool, callTool, draftProfileTool]`,
    tests: ["test/access/rights.test.ts"],
  },
  {
    file: "src/features/consents/consents.ts",
    find: `return asked.digest === digest.sha256 ? undefined : "arguments";`,
    replace: `return undefined;`,
    tests: ["test/features/consents/consents.test.ts"],
  },
  {
    file: "src/features/retained-calls/retained-calls.ts",
    find: `const own = new Redactor(keeper.grant?.redactor);`,
    replace: `const own = new Redactor();`,
    tests: ["test/features/retained-calls/api.test.ts"],
  },
  {
    file: "src/features/retained-calls/secret-fields.ts",
    find: `format === "password" || writeOnly === true);`,
    replace: `format === "password");`,
    tests: ["test/features/retained-calls/secret-fields.test.ts"],
  },
  {
    file: "src/host/upstreams/drift.ts",
    find: `{ ...rest, description: approved.description };`,
    replace: `{ ...rest, description: observed.description };`,
    tests: ["test/host/upstreams/auto-approve.test.ts"],
  },
  {
    file: "src/host/catalog/permitted.ts",
    find: `resource: async (uri) => (reads ? catalog.resource(uri) : undefined),`,
    replace: `resource: (uri) => catalog.resource(uri),`,
    tests: ["test/host/catalog/permitted.test.ts"],
  },
  {
    file: "src/host/catalog/releases.ts",
    find: `const entry = asGivenNow(then, now);`,
    replace: `const entry = then;`,
    tests: ["test/host/calls/environment.test.ts"],
  },
  {
    file: "src/host/catalog/withdrawn.ts",
    find: `const after = new Set(stood?.releases);`,
    replace: `const after = new Set();`,
    tests: ["test/edits/reviews.test.ts"],
  },
  {
    file: "src/host/checks/schema-code.ts",
    find: `JSON.stringify(value).includes("*/")`,
    replace: `JSON.stringify(value).startsWith("*/")`,
    tests: ["test/host/checks/schema-code.test.ts"],
  },
  {
    file: "src/host/serving/watchers.ts",
    find: `const hasRoom = waiting.uris.size < UPDATES_MAX || waiting.uris.has(uri);`,
    replace: `const hasRoom = waiting.uris.size < UPDATES_MAX;`,
    tests: ["test/host/serving/watchers.test.ts"],
  },
  {
    file: "src/http/access/own-page.ts",
    find: `  if (site !== undefined && site !== "same-origin" && site !== "none") {`,
    replace: `  if (site === "cross-site") {`,
    tests: ["test/http/access/permit.test.ts"],
  },
  {
    file: "src/http/access/sign-in.ts",
    find: `const isElsewhere = base === "" && /^\\/t(?:\\/|$)/.test(pathname);`,
    replace: `const isElsewhere = base !== "" && /^\\/t(?:\\/|$)/.test(pathname);`,
    tests: ["test/http/access/sign-in.test.ts"],
  },
  {
    file: "src/http/pages/pages.ts",
    find: `text.replace(/[&<>\\r]/g,`,
    replace: `text.replace(/[&>\\r]/g,`,
    tests: ["test/http/pages/editor.test.ts"],
  },
  {
    file: "src/http/request-pipeline.ts",
    find: `if (hosts > 1) throw`,
    replace: `if (hosts > 2) throw`,
    tests: ["test/http/server.test.ts"],
  },
  {
    file: "src/image/apply.ts",
    find: `    if (outcome === "removed") merged.delete(entry);\n`,
    replace: ``,
    tests: ["test/image/apply.test.ts"],
  },
  {
    file: "src/features/tenant-files/read-tenant-file.ts",
    find: `    if (!matches(cid, content.bytes)) {
      this.complain("wrong-content", \`The bytes do not match \${cid}\`);
      return;
    }
`,
    replace: ``,
    tests: ["test/features/tenant-files/attacks.test.ts"],
  },
  {
    file: "src/lib/redactor.ts",
    find: `(text) => [text, text.replaceAll(" ", "+")]`,
    replace: `(text) => [text, text.replace(" ", "+")]`,
    tests: ["test/lib/redactor.test.ts"],
  },
  {
    file: "src/lib/seal.ts",
    find: `text.startsWith(FORMAT) && sealed.toString("base64url") === encoded;`,
    replace: `text.startsWith(FORMAT);`,
    tests: ["test/lib/seal.test.ts"],
  },
  {
    file: "src/limits/limits.ts",
    find: `return Math.min(\n    value,`,
    replace: `return Math.min(\n    limits[name],`,
    tests: ["test/admission/tenant-limits.test.ts"],
  },
  {
    file: "src/mcp/legacy/sessions.ts",
    find: ` &&\n      known.principalId === whose.principal?.id`,
    replace: ``,
    tests: ["test/access/principals.test.ts"],
  },
  {
    file: "src/mcp/modern/tasks/tasks.ts",
    find: `return task.server === server && task.principal === principal?.id;`,
    replace: `return task.server === server;`,
    tests: ["test/access/principals.test.ts"],
  },
  {
    file: "src/mcp/stdio/stdio.ts",
    find: `    if (!isUtf8(bytes)) return this.#refuse(null, new BerthError("parse_error", "it is not UTF-8"));\n`,
    replace: ``,
    tests: ["test/mcp/stdio/stdio.test.ts"],
  },
  {
    file: "src/features/metrics/metrics.ts",
    find: `known.size >= metricTools &&`,
    replace: `known.size > metricTools &&`,
    tests: ["test/features/metrics/metrics.test.ts"],
  },
  {
    file: "src/native/client.ts",
    find: `    signal?.throwIfAborted();\n`,
    replace: ``,
    tests: ["test/native/calls.test.ts"],
  },
  {
    file: "src/network/fetches.ts",
    find: `this.#receivedBytes > fetchResponseBytes`,
    replace: `part.length > fetchResponseBytes`,
    tests: ["test/network/fetches.test.ts"],
  },
  {
    file: "src/network/network-rules.ts",
    find: `if (isMetadataAddress(address) || (port === ownPort && isOwnAddress(address))) return false;`,
    replace: `if (isMetadataAddress(address)) return false;`,
    tests: ["test/network/network-rules.test.ts"],
  },
  {
    file: "src/outcome/envelope.ts",
    find: `return hasOnly(value, ["type", "content"]) && typeof content === "string"`,
    replace: `return typeof content === "string"`,
    tests: ["test/outcome/outcome.test.ts"],
  },
  {
    file: "src/packages/registry-relay.ts",
    find: "const DESCRIPTION = new RegExp(`^${NAME}$`",
    replace: "const DESCRIPTION = new RegExp(`^${NAME}`",
    tests: ["test/packages/registry-relay.test.ts"],
  },
  {
    file: "src/processes/quota/processor-quota.ts",
    find: `one.processors - other.processors)[0]`,
    replace: `other.processors - one.processors)[0]`,
    tests: ["test/processes/quota/processor-quota.test.ts"],
  },
  {
    file: "src/processes/seccomp.ts",
    find: `const NAMESPACES = 0x7e02_0000;`,
    replace: `const NAMESPACES = 0x6e02_0000;`,
    tests: ["test/processes/seccomp.test.ts"],
  },
  {
    file: "src/secrets/sealing.ts",
    find: `["berth secret", tenant, name]`,
    replace: `["berth secret", name]`,
    tests: ["test/secrets/at-rest.test.ts"],
  },
  {
    file: "src/store/sqlite/broken-log.ts",
    find: "[databaseFile, `${databaseFile}-wal`]",
    replace: "[databaseFile]",
    tests: ["test/store/broken-log.test.ts"],
  },
  {
    file: "src/store/collection.ts",
    find: `kind === "release" && cid !== null && this.#reach.has(cid);`,
    replace: `kind === "release" && cid === null;`,
    tests: ["test/store/sqlite.test.ts"],
  },
  {
    file: "src/store/sqlite/scrub.ts",
    find: `    last.fill(0, 4 + rest, this.#usable);\n`,
    replace: ``,
    tests: ["test/store/erasure.test.ts"],
  },
  {
    file: "src/upstream/calls/attribution.ts",
    find: `return this.#calls.length === 1 ? this.#calls[0] : undefined;`,
    replace: `return this.#calls[0];`,
    tests: ["test/upstream/calls/attribution.test.ts"],
  },
  {
    file: "src/upstream/launch/launcher-uri.ts",
    find: `const programForm = /^[A-Za-z0-9_]`,
    replace: `const programForm = /^[A-Za-z0-9_-]`,
    tests: ["test/upstream/launch/launcher.test.ts"],
  },
];
