// Whether a source answers: signs in and reads one record of its first list. It costs two requests.

import { ConfigError } from '../config/environment.ts'
import type { Config } from '../config/load.ts'
import { openUpstreams, streamsIn } from '../configured.ts'
import { messageOf } from '../util/errors.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'

/** `problem`: null when it answers. */
export async function checkSource(
  load: () => Config,
  { log, signal }: Pick<Call, 'log' | 'signal'>,
): Promise<{ readonly problem: string | null; readonly code: ExitCode }> {
  try {
    const config = load()
    const upstreams = openUpstreams({ config, log })
    try {
      const [stream] = streamsIn(config)
      if (stream) await upstreams.sourceOf(stream).list({ page: 1, pageSize: 1 }, signal)
      return { problem: null, code: exitCodes.done }
    } finally {
      upstreams.close()
    }
  } catch (error) {
    signal.throwIfAborted()
    return error instanceof ConfigError
      ? { problem: error.problems.join('; '), code: exitCodes.usage }
      : { problem: messageOf(error), code: exitCodes.upstream }
  }
}
