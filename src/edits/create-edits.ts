import type { Saved } from "../contract/review.ts";
import { withdraw } from "../host/catalog/withdrawn.ts";
import { markStored, readDirectory, type Directory } from "../host/directory/directory.ts";
import type { Host } from "../host/host.ts";
import type { HostDependencies } from "../host/open-host.ts";
import { loadStoredDefinition } from "../image/definition.ts";
import { rawBlock, type Cid } from "../lib/cid.ts";
import type { CurrentDraft, Draft } from "../lib/draft.ts";
import { BerthError } from "../lib/errors.ts";
import { createYielder } from "../lib/event-loop.ts";
import { tryParseObject } from "../lib/json.ts";
import { formatLocation, type Problem } from "../lib/problem.ts";
import { createRateLimiter } from "../lib/token-buckets.ts";
import type { ChangeSubject } from "../store/store.ts";
import { unlessDamaged } from "../store/unless-damaged.ts";
import { DraftQuota, languageOfDraft } from "./draft-checks.ts";
import { readContract, openPast, singleText } from "./earlier-versions.ts";
import type { Edits, Listed, SaveOptions, Subject } from "./edits.ts";
import { examine, newProblems } from "./examine.ts";
import { entryText, rawEntriesIn, readMcpsText, textAt, type RawEntries } from "./mcps-text.ts";
import { PackageSupply } from "./package-supply.ts";
import { planEdit, planRestore, type EditPlan } from "./plan.ts";
import { reviewedStore } from "./proposed-store.ts";

export interface EditsDependencies extends HostDependencies {
  readonly host: Host;
  /** The most saves that a tenant may make per minute; 0 or absent for no limit. */
  readonly savesPerMinuteOf?: (tenant: string) => number;
  /** The same for reviews. */
  readonly reviewsPerMinuteOf?: (tenant: string) => number;
  /** By default, only package sets whose tarballs the tenant already has can be saved. */
  readonly packageSupply?: PackageSupply;
  /** Returns whether a tenant may have packages; by default all may. */
  readonly mayHavePackages?: (tenant: string) => boolean;
}

/** A longer variable is not parsed to guess its language. */
const GUESSED_UNITS_MAX = 64 * 1024;

/** Attempts of a save that is overtaken by another one that does not touch its subject. */
const ATTEMPTS_MAX = 5;

export function createEdits(dependencies: EditsDependencies): Edits {
  const { store, host, limits, writable } = dependencies;
  const reviewing = { ...dependencies, store: reviewedStore(store, limits.reviewedBytes) };
  const past = openPast(store, limits);
  const supply = dependencies.packageSupply ?? new PackageSupply(undefined, limits);
  const packages = { supply, mayHave: dependencies.mayHavePackages ?? (() => true) };
  const quota = new DraftQuota(limits);

  /** The directory as stored now, which may be newer than the host's. */
  const readCurrentDirectory = (tenant: string): Promise<Directory> =>
    readDirectory(store, tenant, host.directory(tenant));

  const { savesPerMinuteOf, reviewsPerMinuteOf, sharedLimits } = dependencies;
  const checkSaves = createRateLimiter("save", "savesPerMinute", savesPerMinuteOf, sharedLimits);
  const checkReviews = createRateLimiter("review", "reviewsPerMinute", reviewsPerMinuteOf, sharedLimits);

  async function plan(
    tenant: string,
    subject: Subject,
    draft: Draft | null,
    { rights, mustExist = false }: Pick<SaveOptions, "rights" | "mustExist">,
  ): Promise<EditPlan> {
    const [before, variable] = await Promise.all([
      readCurrentDirectory(tenant),
      subject.kind === "variable" ? store.name(tenant, "variable", subject.name) : undefined,
    ]);
    const plan = await planEdit(reviewing.store, limits, tenant, before, subject, draft, rights, packages, variable);
    if (mustExist && plan.current === null) throw conflict(null, undefined);
    if (draft || plan.current !== null) return plan;
    throw new BerthError("not_found", `there is no ${subject.kind} "${subject.name}"`);
  }

  async function save(
    tenant: string,
    makePlan: () => Promise<EditPlan>,
    subject: ChangeSubject,
    { expected, allowBreaking = false, by, rights }: SaveOptions,
  ): Promise<Saved> {
    if (!writable) throw new BerthError("read_only");
    checkSaves(tenant);
    for (let attempt = 1; ; attempt++) {
      const since = await store.latestChange();
      const plan = await makePlan();
      // A plan reads the servers and the source of `mcps`, which must be from the same moment.
      if (await areServersChangedAfter(since, tenant)) {
        if (attempt === ATTEMPTS_MAX) throw conflict(plan.current, expected);
        continue;
      }
      if (expected !== undefined && expected !== plan.current) throw conflict(plan.current, expected);
      const { review, releases, after } = await examine(reviewing, tenant, plan, rights);
      const errors = review.problems.filter(({ severity }) => severity === "error");
      if (errors.length > 0) throw refusal(review.problems, errors.length);
      if (review.breaking && !allowBreaking) throw new BerthError("edit_breaking", undefined, { data: { review } });
      const { put, set, derived } = plan.proposed.proposal();
      try {
        const storedBytesMax = dependencies.storedBytesOf?.(tenant);
        const changes = await store.change(tenant, {
          by,
          subject: { ...subject, breaking: review.breaking },
          put: [...releases.put, ...put],
          set: [...releases.set, ...set],
          derived: [...releases.derived, ...derived],
          ...(storedBytesMax !== undefined && { storedBytesMax }),
        });
        if (after) markStored(after.directory, changes);
      } catch (error) {
        if (!(error instanceof BerthError && error.code === "name_conflict") || attempt === ATTEMPTS_MAX) throw error;
        continue;
      }
      // A change that affects no server, such as one of another variable, requires no reload.
      if (plan.packages || after?.directory !== plan.before) await host.reload(tenant, after);
      return { cid: plan.next, review };
    }
  }

  async function areServersChangedAfter(since: number, tenant: string): Promise<boolean> {
    const changes = await store.changesAfter(tenant, ["variable", "server"], since);
    return !changes || changes.changed.some(({ kind, name }) => kind === "server" || name === "mcps");
  }

  /** Problems of a server whose source an edit leaves unchanged: nothing is built for the edit that could find them. */
  async function existingProblems(
    tenant: string,
    { kind, name }: Subject,
    plan: EditPlan,
  ): Promise<readonly Problem[]> {
    const summary = kind === "variable" ? undefined : await host.summary(tenant, name);
    return summary ? newProblems(plan, summary.problems, summary.problems) : [];
  }

  async function readEntries(tenant: string): Promise<RawEntries | undefined> {
    const cached = (await readCurrentDirectory(tenant)).mcps;
    const variable = cached && (await store.name(tenant, "variable", "mcps"))?.cid;
    if (cached && variable === cached.cid) return rawEntriesIn({ variable, text: "", isReferred: false }, cached);
    return rawEntriesIn(await readMcpsText(store, tenant));
  }

  async function currentDraft(tenant: string, subject: Subject): Promise<(Draft & { cid: Cid }) | undefined> {
    const { kind, name } = subject;
    switch (kind) {
      case "variable": {
        const record = await store.name(tenant, "variable", name);
        return record && { cid: record.cid, ...singleText(name, await textAt(store, tenant, record.cid)) };
      }
      case "entry": {
        const raw = (await readEntries(tenant))?.get(name);
        if (raw === undefined) return undefined;
        const text = entryText(raw);
        return { cid: rawBlock(text).cid, ...singleText(name, text) };
      }
      case "definition": {
        const cid = (await readCurrentDirectory(tenant)).servers.get(name)?.definition;
        if (cid === undefined) return undefined;
        const { entry, files } = await loadStoredDefinition(store, tenant, cid, name);
        return { cid, entry, files };
      }
    }
  }

  return {
    names: listNames,

    async list(tenant, kind, names) {
      const listed: Listed[] = [];
      const yieldIfDue = createYielder();
      for (const name of names) {
        await yieldIfDue();
        const version = (await past.history(tenant, { kind, name }))[0];
        if (version?.cid != null) listed.push({ name, cid: version.cid, changedAt: version.changedAt });
      }
      return listed;
    },

    async read(tenant, subject) {
      const draft = await currentDraft(tenant, subject);
      if (!draft) return undefined;
      const version = (await past.history(tenant, subject)).find(({ cid }) => cid === draft.cid);
      return {
        ...draft,
        language: languageOf(subject, draft),
        changedAt: version?.changedAt ?? 0,
        by: version?.by ?? "",
      };
    },

    async language(tenant, server) {
      const subject: Subject = { kind: "definition", name: server };
      if ((await readCurrentDirectory(tenant)).servers.get(server)?.definition === undefined) return undefined;
      const draft = await unlessDamaged(currentDraft(tenant, subject));
      return draft ? languageOf(subject, draft) : "damaged";
    },

    async review(tenant, subject, draft, rights, signal) {
      if (!writable) throw new BerthError("read_only");
      checkReviews(tenant);
      return quota.hold(tenant, draft, async () => {
        const proposal = await plan(tenant, subject, draft, { rights });
        const existing = proposal.next === proposal.current ? await existingProblems(tenant, subject, proposal) : [];
        const reviewed = { ...proposal, notices: [...(proposal.notices ?? []), ...existing] };
        return (await examine(reviewing, tenant, reviewed, rights, signal)).review;
      });
    },

    save: (tenant, subject, draft, options) =>
      quota.hold(tenant, draft, () => save(tenant, () => plan(tenant, subject, draft, options), subject, options)),
    history: (tenant, subject) => past.history(tenant, subject),
    version: (tenant, subject, cid) => past.draft(tenant, subject, cid),
    releases: (tenant, server) => host.releases(tenant, server),
    contract: (tenant, server, release) => readContract(store, tenant, server, release),
    restoreRelease(tenant, server, release, options) {
      const makePlan = async () =>
        planRestore(reviewing.store, tenant, await readCurrentDirectory(tenant), server, release, options);
      return quota.hold(tenant, null, () => save(tenant, makePlan, { kind: "release", name: server }, options));
    },
    async withdrawRelease(tenant, server, release, { isWithdrawn, by, rights }) {
      if (!writable) throw new BerthError("read_only");
      if (!rights.has("withdrawal", server)) throw rights.refusal("withdrawal", server, "it");
      checkSaves(tenant);
      const storedBytesMax = dependencies.storedBytesOf?.(tenant);
      await withdraw(store, tenant, { server, release, isWithdrawn, by, storedBytesMax });
      await host.reload(tenant);
    },
  };

  async function listNames(tenant: string, kind: Subject["kind"]): Promise<string[]> {
    switch (kind) {
      case "variable":
        return (await store.names(tenant, "variable")).map(({ name }) => name);
      case "entry":
        return [...((await readEntries(tenant))?.keys() ?? [])].sort();
      case "definition": {
        const { servers } = await readCurrentDirectory(tenant);
        return [...servers].filter(([, { definition }]) => definition !== undefined).map(([name]) => name);
      }
    }
  }
}

function languageOf({ kind, name }: Subject, draft: Draft): CurrentDraft["language"] {
  if (kind === "definition") return languageOfDraft(draft);
  if (kind === "entry" || name === "mcps") return "json";
  const text = draft.files[draft.entry]!;
  // A long variable is not parsed for a guess.
  if (text.length > GUESSED_UNITS_MAX) return text.trimStart().startsWith("{") ? "json" : "text";
  return tryParseObject(text) ? "json" : "text";
}

function refusal(problems: readonly Problem[], count: number): BerthError {
  const first = problems.find(({ severity }) => severity === "error")!;
  const more = count > 1 ? ` (and ${count - 1} more)` : "";
  const where = formatLocation(first);
  return new BerthError("edit_refused", `${where && `${where}: `}${first.message}${more}`, { data: { problems } });
}

function conflict(current: Cid | null, expected: Cid | null | undefined): BerthError {
  const expectation = expected === undefined ? "" : `, not ${expected ?? "absent"}`;
  const detail = `it is ${current ?? "absent"}${expectation}`;
  return new BerthError("name_conflict", detail, { data: { current, expected } });
}
