-- The request comes from load.mjs: headers as wrk's own -H flags, the body in the environment.
-- No response() callback: it would slow the generator; sizes and statuses are checked in total.
wrk.method = "POST"
wrk.body = os.getenv("BENCH_BODY")

function done(summary, latency)
  io.write(string.format(
    'BENCH {"requests":%d,"durationUs":%d,"bytes":%d,"p50Us":%d,"p99Us":%d,"failed":%d,"statuses":%d}\n',
    summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.errors.status))
end
