import Settings
import TestSupport
import Testing

/// Whatever is written in options and their files is taken or refused with a sentence, and nothing traps.
@Suite struct FuzzTests {
    private static let words =
        ["[s3://", "]", "\\,", "ttl=", "cache-size=", "header=", "metrics=", "127.0.0.1:", "umask=", "K", "ms", "d"]

    @Test func filesOfOptions() {
        let seeds = [
            "# all\ncache-size = 200G\nro\n\n[s3://backups]\nttl = 1h\n; no\n[oss://photos/raw]\numask=077\nheader = X: y\n"
        ]
        Fuzzer("files of options", seeds: seeds, words: Self.words).run { bytes in
            let file = try ConfigFile(parsing: String(decoding: bytes, as: UTF8.self), path: "file")
            let sources = OptionSources(
                files: [(path: "file", entries: file.entries(for: nil))], optionLists: [], environment: [:])
            _ = try MountSettings(sources.options)
        }
    }

    @Test func listsOfOptions() {
        let seeds = [
            "endpoint=http://h:1/p,region=r,ttl=5m,cache-size=2G,umask=022,uid=5,header=X-A: b\\,c,ro,metrics=127.0.0.1:80",
            "free-space=1K,part-size=5M,uploads=16,conflict=keep,doh=https://h/q,proxy=socks5://h:1,names=raw,metrics=[::1]:9",
        ]
        Fuzzer("lists of options", seeds: seeds, words: Self.words).run { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            _ = try? MountSettings.replacingLongOptions(in: text.split(separator: " ").map(String.init))
            do throws(SettingsError) { _ = try MountSettings(optionLists: [text], environment: [:]) } catch {
                #expect(!error.description.isEmpty)
                throw error
            }
        }
    }
}
