// Loaded before tests: a property that fails ends at once, since nobody looks at its smallest input.

import fc from 'fast-check'

fc.configureGlobal({ endOnFailure: true })
