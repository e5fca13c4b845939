// The API, put together: who may read gets documents, who may act brings the token of an operator.

import { forReaders } from '../readers.ts'
import type { Routes } from '../server.ts'
import { apiActionRoutes } from './actions.ts'
import { apiReads } from './reads.ts'
import { apiScope } from './scope.ts'

type Options = Parameters<typeof apiActionRoutes>[0] & Parameters<typeof apiReads>[0]

export const apiRoutes = (reading: Parameters<typeof forReaders>[0], options: Options): readonly Routes[] => [
  apiScope(options.log, [apiActionRoutes(options)]),
  forReaders(reading, [apiScope(options.log, [apiReads(options)])]),
]
