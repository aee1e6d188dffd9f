import type { ToolContext } from "berth";

/**
 * Notes that the server itself keeps, as its state: they outlive calls, processes, releases and restarts. Each note is a
 * resource, and clients that have subscribed to one hear when it changes.
 */

/** A note. */
interface Note {
  title: string;
  /** In Markdown. */
  text: string;
  tags: string[];
}

/** A note in a list. */
interface Listed {
  id: string;
  title: string;
  tags: string[];
  /** When it was last changed, in ISO 8601. */
  changed: string;
}

/**
 * What a note is called in its address, such as `shopping`.
 *
 * @pattern ^[a-z0-9][a-z0-9-]{0,63}$
 */
type Id = string;

const PREFIX = "notes/";

/**
 * Writes a new note, or replaces the one of that id.
 *
 * @param title One line.
 * @param text In Markdown.
 * @param version The version that you have read. With it, a note that somebody else has changed since stays as it is.
 * @idempotent
 */
export async function write(
  id: Id,
  title: string,
  text: string,
  tags: string[] = [],
  version: number | undefined,
  context: ToolContext,
): Promise<{ uri: string; version: number }> {
  const { state } = context;
  const note: Note = { title, text, tags };
  const written =
    version === undefined ? await state.set(keyOf(id), note) : await state.compareAndSet(keyOf(id), version, note);
  if (written === undefined) throw new Error(`Somebody else has changed the note "${id}" since; read it again first`);
  await changed(id, context);
  return { uri: uriOf(id), version: written };
}

/**
 * Adds a paragraph to the end of a note, whoever else does the same just now.
 *
 * @param paragraph In Markdown.
 */
export async function append(id: Id, paragraph: string, context: ToolContext): Promise<void> {
  await context.state.update<Note>(keyOf(id), (note) => {
    if (!note) throw noSuch(id);
    return { ...note, text: `${note.text.trimEnd()}\n\n${paragraph}` };
  });
  await changed(id, context);
}

/**
 * One note with its version, to change it by.
 *
 * @readOnly
 */
export async function read(id: Id, { state }: ToolContext): Promise<Note & { version: number }> {
  const entry = await state.entry<Note>(keyOf(id));
  if (!entry) throw noSuch(id);
  return { ...entry.value, version: entry.version };
}

/**
 * The notes there are, in the order of their ids.
 *
 * @param tag Only those with this tag.
 * @param after Those after this id: the `next` of a list before.
 * @readOnly
 */
export async function list(
  tag: string | undefined,
  after: Id | undefined,
  { state }: ToolContext,
): Promise<{ notes: Listed[]; next?: string }> {
  const found = await state.list<Note>({
    prefix: PREFIX,
    values: true,
    ...(after !== undefined && { after: keyOf(after) }),
  });
  const notes = found.entries
    .filter(({ value }) => tag === undefined || value.tags.includes(tag))
    .map(({ key, value: { title, tags }, changedAt }) => ({
      id: idOf(key),
      title,
      tags,
      changed: new Date(changedAt).toISOString(),
    }));
  return { notes, ...(found.next !== undefined && { next: idOf(found.next) }) };
}

/**
 * Deletes a note.
 *
 * @destructive
 * @idempotent
 */
export async function remove(id: Id, context: ToolContext): Promise<boolean> {
  const isGone = await context.state.delete(keyOf(id));
  if (isGone) await changed(id, context);
  return isGone;
}

/**
 * All notes, as a list of links.
 *
 * @resource notes://all text/markdown
 */
export async function all(context: ToolContext): Promise<string> {
  const lines: string[] = [];
  for (let after: string | undefined; ;) {
    const { notes, next } = await list(undefined, after, context);
    lines.push(...notes.map(({ id, title }) => `- [${title}](${uriOf(id)})`));
    if (next === undefined) return lines.join("\n");
    after = next;
  }
}

/**
 * One note.
 *
 * @resource notes://note/{id} text/markdown
 */
export async function note(id: string, { state }: ToolContext): Promise<string | undefined> {
  const found = await state.get<Note>(keyOf(id));
  return found && `# ${found.title}\n\n${found.text}`;
}

/** @completes note.id */
export async function ids(value: string, _others: unknown, { state }: ToolContext): Promise<string[]> {
  const { entries } = await state.list({ prefix: PREFIX + value, limit: 100 });
  return entries.map(({ key }) => idOf(key));
}

async function changed(id: string, { resourceUpdated }: ToolContext): Promise<void> {
  await Promise.all([resourceUpdated(uriOf(id)), resourceUpdated("notes://all")]);
}

function keyOf(id: string): string {
  return PREFIX + id;
}

function idOf(key: string): string {
  return key.slice(PREFIX.length);
}

function uriOf(id: string): string {
  return `notes://note/${encodeURIComponent(id)}`;
}

function noSuch(id: string): Error {
  return new Error(`There is no note "${id}"`);
}
