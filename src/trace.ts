/** By what a request is known in logs, answers and traces, from its arrival to whatever is called for it. */
export interface Trace {
  /** Of the request, as its answer and the log lines name it. */
  readonly requestId: string;
}
