// `tidemark erase`: removes what is here of one record that the upstream has no more (P20).

import { mirroredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { meantKey } from '../documents/records.ts'
import { erasedSentence, eraseRecord } from '../operator/erase.ts'
import { storyTable } from '../store/book/row-story.ts'
import { pickStream } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { snakeCased } from '../util/text.ts'
import { type Command, flag, json, option, textOf } from './command.ts'
import { exitCodes } from './exit.ts'
import { loadConfigHere } from './mirror.ts'
import { recordedHere } from './recorded.ts'

export const erase: Command = {
  name: 'erase',
  summary:
    'remove one record that the upstream has deleted, with its past and all that is kept under its key',
  usage: '<stream> <key> --reason TEXT [--with-related] [--dry-run] [--json]',
  options: {
    reason: option('TEXT', 'why; it is recorded, without the key'),
    'with-related': flag(
      'of an assignment: also the records that no other assignment has, as far as they are deleted upstream',
    ),
    'dry-run': flag('erase nothing; count what would be erased'),
    json,
  },
  examples: ['tidemark erase assignment 4711 --reason "the customer asked for it" --dry-run'],
  async run(call) {
    const { positionals, values, stdout, environment, log, signal } = call
    const [name, typed, ...more] = positionals
    if (name === undefined || typed === undefined || more.length > 0)
      throw new UsageError(
        '`tidemark erase` takes a stream and a key, e.g. `tidemark erase assignment 4711 --reason TEXT`.',
      )
    const isDryRun = values['dry-run'] === true
    const reason = textOf(values, 'reason')
    if (reason === null && !isDryRun)
      throw new UsageError('`tidemark erase` needs --reason TEXT: it is recorded.')
    const config = loadConfigHere(environment)
    const stream = pickStream(name, mirroredStreams(config, call.catalogue))
    await using context = await openContext({ config, log, migrates: false })
    const key = meantKey(stream, await storyTable(context.database.pool, stream), typed)
    const wanted = { stream, key, withRelated: values['with-related'] === true, isDryRun }
    const erasing = () => eraseRecord(context, wanted, signal)
    const erased = isDryRun
      ? await erasing()
      : await recordedHere(
          { pool: context.database.pool, log },
          { action: 'erase', target: stream.name, reason },
          erasing,
          (done) => erasedSentence(done, false),
        )
    if (values.json) stdout.json(snakeCased({ ...erased, dryRun: isDryRun }))
    else stdout.say(erasedSentence(erased, isDryRun))
    return exitCodes.done
  },
}
