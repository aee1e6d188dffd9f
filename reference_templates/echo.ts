/**
 * The smallest useful server: it says back what it is told. Copy it to begin a definition of your own: every exported
 * function is a tool, its types are the tool's schema, and its comments are what a model reads.
 */

/**
 * A short time. Tags on a type of your own hold wherever it is used.
 *
 * @minimum 0
 * @maximum 1000
 */
type Milliseconds = number;

/** What {@link repeat} takes. Comments and tags on properties become descriptions and limits in the schema. */
interface Repetition {
  /** What to say. */
  message: string;
  /**
   * How many times.
   * @minimum 1
   * @maximum 100
   * @multipleOf 1
   */
  times?: number;
  /** What stands between two copies. */
  separator?: string;
}

/**
 * Says back exactly what it is told.
 *
 * @param message - What to say.
 * @readOnly
 * @idempotent
 */
export function echo(message: string): string {
  return message;
}

/**
 * Says the same several times over.
 *
 * @readOnly
 * @idempotent
 */
export function repeat({ message, times = 2, separator = "\n" }: Repetition): string {
  return Array.from({ length: times }, () => message).join(separator);
}

/**
 * Says a message word by word, each as a progress event, and the whole of it at the end. Shows how a client deals with
 * results that take their time.
 *
 * @param message - What to say.
 * @param delayMs - Milliseconds to wait before each word.
 * @readOnly
 * @idempotent
 */
export async function* dictate(message: string, delayMs: Milliseconds = 0): AsyncGenerator<string, string> {
  for (const word of message.split(/\s+/).filter(Boolean)) {
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    yield word;
  }
  return message;
}
