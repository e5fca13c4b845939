// `tidemark completion`: prints a script with which a shell completes verbs, their words and options, streams, and paths of the upstream.
// The script holds all of these, so that pressing Tab starts no program.

import { operations } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'
import type { Call, Command, Option } from './command.ts'
import { readDescriptions } from './described.ts'
import { exitCodes } from './exit.ts'

export const completion: Command = {
  name: 'completion',
  summary: 'print a completion script for your shell',
  usage: 'bash|zsh|fish',
  options: {},
  examples: [
    'tidemark completion bash > ~/.local/share/bash-completion/completions/tidemark',
    'tidemark completion zsh > ~/.zfunc/_tidemark',
    'tidemark completion fish > ~/.config/fish/completions/tidemark.fish',
  ],
  ignoresDemo: true,
  async run(call) {
    const { positionals, stdout, commands } = call
    const [shell = ''] = positionals
    const write = Object.hasOwn(shells, shell) && positionals.length === 1 ? shells[shell] : undefined
    if (!write) throw new UsageError('`tidemark completion` takes the name of a shell: bash, zsh or fish.')
    stdout.write(write(await withDescribed(call, await commands())))
    return exitCodes.done
  },
}

const placeholders = ['stream', 'id']

/** Second words of a verb, such as `list`, as its usage has them. Values of options are none, nor is what stands for something. */
export function secondWords(usage: string): readonly string[] {
  const named = usage.startsWith('<') ? usage : usage.replaceAll(/<[^<>]*>/g, '')
  const bare = named.replaceAll(/[ [(]--[a-z-]+ [\w|]+/g, '')
  const found = [...bare.matchAll(/(?:^[[<]?|\| ?)([a-z]{2,})\b(?![:=…])/g)].map(([, word = '']) => word)
  return found.filter((word) => !placeholders.includes(word))
}

const wordsOfApi: readonly string[] = [
  ...new Set(Object.values(operations).map(({ method }) => method)),
  ...new Set(Object.values(operations).map(({ path }) => path.replaceAll(/\{.*/g, ''))),
]

/** A verb with further words, such as the paths that the upstream describes. */
type Completed = Command & { readonly words: readonly string[] }

/** Adds the streams, and the paths that the upstream describes now: the script cannot ask later. */
async function withDescribed(call: Call, commands: readonly Command[]): Promise<readonly Completed[]> {
  const operations = (await readDescriptions(call)).flatMap(({ description }) => description.operations)
  const paths = operations.map(({ path }) => path.replaceAll(/\{.*/g, ''))
  const described = paths.filter((path) => /^[\w./-]+$/.test(path))
  const words = [...new Set([...wordsOfApi, ...described])]
  const streams = call.catalogue.map(({ name }) => name)
  return commands.map((command) => ({
    ...command,
    words: [
      ...(command.name === 'api' ? words : secondWords(command.usage)),
      ...(/stream/.test(command.usage) ? streams : []),
    ],
  }))
}

const takesFile = ({ value = '' }: Option): boolean => value.startsWith('FILE')
/** The options whose value is a file, as a pattern of the shell. */
const filesOf = (command: Command): string =>
  optionsOf(command)
    .flatMap(([name, option]) => (takesFile(option) ? [`--${name}`] : []))
    .join('|')
const optionsOf = ({ options }: Command): readonly (readonly [string, Option])[] => [
  ...Object.entries(options),
  ['help', { type: 'boolean', describe: 'show this help' }],
]
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

const shells: Readonly<Record<string, (commands: readonly Completed[]) => string>> = {
  bash: (commands) =>
    `# Completes tidemark in bash. Made by: tidemark completion bash
_tidemark() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" words='' options=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ${quoted([...commands.map(({ name }) => name), 'help', '--help', '--version'].join(' '))} -- "$cur"))
    return
  fi
  case "\${COMP_WORDS[1]}" in
${commands
  .map((command) => {
    const files = filesOf(command)
    const options = optionsOf(command).map(([name]) => `--${name}`)
    const file =
      files && `\n      case "$prev" in ${files}) COMPREPLY=($(compgen -f -- "$cur")); return ;; esac`
    return `    ${command.name})${file}
      words=${quoted(command.words.join(' '))}
      options=${quoted(options.join(' '))} ;;`
  })
  .join('\n')}
    help) words=${quoted(commands.map(({ name }) => name).join(' '))} ;;
  esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$options" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
  esac
}
complete -F _tidemark tidemark
`,

  zsh: (commands) =>
    `#compdef tidemark
# Completes tidemark in zsh. Made by: tidemark completion zsh
_tidemark() {
  local -a verbs found options
  verbs=(
${commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`).join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe 'verb' verbs
    return
  fi
  case $words[2] in
${commands
  .map((command) => {
    const options = optionsOf(command).map(([name, { describe }]) => quoted(`--${name}:${describe}`))
    const files = filesOf(command)
    const file = files && `\n      [[ $words[CURRENT-1] == (${files}) ]] && { _files; return }`
    return `    ${command.name})${file}
      found=(${command.words.map(quoted).join(' ')})
      options=(${options.join(' ')}) ;;`
  })
  .join('\n')}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe -o 'option' options
  else
    compadd -a found
  fi
}
if [[ $funcstack[1] == _tidemark ]]; then _tidemark "$@"; else compdef _tidemark tidemark; fi
`,

  fish: (commands) =>
    [
      '# Completes tidemark in fish. Made by: tidemark completion fish',
      'complete -c tidemark -f',
      ...commands.flatMap((command) => {
        const after = `-n ${quoted(`__fish_seen_subcommand_from ${command.name}`)}`
        const { words } = command
        return [
          `complete -c tidemark -n __fish_use_subcommand -a ${command.name} -d ${quoted(command.summary)}`,
          ...(words.length > 0 ? [`complete -c tidemark ${after} -a ${quoted(words.join(' '))}`] : []),
          ...optionsOf(command).map(([name, option]) => {
            const value = option.type === 'string' ? (takesFile(option) ? ' -r -F' : ' -x') : ''
            return `complete -c tidemark ${after} -l ${name}${value} -d ${quoted(option.describe)}`
          }),
        ]
      }),
      '',
    ].join('\n'),
}
