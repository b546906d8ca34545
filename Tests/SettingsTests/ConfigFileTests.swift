import Foundation
import ObjectStorage
import Settings
import TestSupport
import Testing

struct ConfigFileTests {
    private static let text = """
        # for all
        cache-size = 20G
        allow_other
        header = X-One: 1

        [s3://photos]
        endpoint=http://127.0.0.1:9000
          ttl = 5m
        [s3://photos/raw]
        ; nearer
        ttl = 1h
        header = X-Two: a = b
        [s3://]
        region = eu-1
        [oss://photos]
        region = cn-1
        """

    private func settings(
        _ url: String, _ text: String = text, environment: [String: String] = [:], options: [String] = []
    ) throws -> MountSettings {
        let file = try ConfigFile(parsing: text, path: "config")
        let sources = OptionSources(
            files: [("config", file.entries(for: try BucketURL(parsing: url)))], optionLists: options,
            environment: environment)
        return try MountSettings(sources.options)
    }

    @Test func whatStandsBeforeTheSectionsGoesForAll() throws {
        let settings = try settings("kodo://other")
        #expect(settings.cacheSize == 20 << 30 && settings.allowOther && settings.region == nil)
        #expect(settings.ttl == .seconds(60))
    }

    @Test func theNearestSectionWins() throws {
        #expect(try settings("s3://photos").ttl == .seconds(300))
        #expect(try settings("s3://photos/rawer").ttl == .seconds(300))
        let nearest = try settings("s3://photos/raw/2026")
        #expect(nearest.ttl == .seconds(3600) && nearest.endpoint == "http://127.0.0.1:9000")
        #expect(nearest.region == "eu-1")
        #expect(nearest.headers.map(\.value) == ["1", "a = b"])
        #expect(try settings("oss://photos").region == "cn-1")
    }

    @Test func environmentAndCommandLineCountMore() throws {
        let environment = ["PAILFS_TTL": "2", "PAILFS_CACHE_SIZE": "1G"]
        let settings = try settings("s3://photos", environment: environment, options: ["ttl=3,allow_other=no"])
        #expect(settings.ttl == .seconds(3) && settings.cacheSize == 1 << 30 && !settings.allowOther)
    }

    struct Mistake: CustomTestStringConvertible {
        var text: String
        var complaint: String
        var testDescription: String { text }
    }

    @Test(arguments: [
        Mistake(text: "ttl = 1\ntll = 2", complaint: "config:2: there is no option tll; did you mean ttl?"),
        Mistake(text: "\nttl = soon", complaint: "config:2: the option ttl cannot be"),
        Mistake(text: "endpoint =", complaint: "config:1: the option endpoint needs a value"),
        Mistake(text: "[photos]", complaint: "config:1: photos is not a bucket URL"),
        Mistake(text: "[s3://photos", complaint: "config:1: [s3://photos has no ] at the end"),
        Mistake(text: "two words", complaint: "config:1: \"two words\" is not of the form name = value"),
        Mistake(text: "= 3", complaint: "config:1:"),
    ])
    func aMistakeIsNamedWithItsLine(_ mistake: Mistake) throws {
        let error = #expect(throws: SettingsError.self) { try settings("s3://photos", mistake.text) }
        #expect(error?.description.hasPrefix(mistake.complaint) == true, "\(String(describing: error))")
    }

    @Test func eachOptionKnowsItsOrigin() throws {
        let file = try ConfigFile(parsing: Self.text, path: "config")
        let sources = OptionSources(
            files: [("config", file.entries(for: try BucketURL(parsing: "s3://photos/raw")))],
            optionLists: ["ro,rw,region=us-1"], environment: ["PAILFS_TTL": "2"])
        let shown = try sources.effective().map { "\($0.name)=\($0.value) \($0.origin)" }
        #expect(
            shown == [
                "endpoint=http://127.0.0.1:9000 config:7", "region=us-1 command line", "ro=no command line",
                "allow_other=yes config:3", "ttl=2 environment", "cache-size=20G config:2",
                "header=X-One: 1 config:4", "header=X-Two: a = b config:12",
            ])
    }

    @Test func whatWasFoundIsKeptForWhoTakesTheMountOver() throws {
        let directory = try TemporaryDirectory()
        let text = "ro\nheader = X-One: a = 1,%\t\u{e9}\n[s3://photos]\nttl = 2\n"
        try text.write(toFile: directory.path("a config"), atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: directory.path("a config"))
        let url = try BucketURL(parsing: "s3://photos")
        var environment = ["PAILFS_CONFIG": "a config", "PAILFS_REGION": "x"]
        let before = try OptionSources(
            for: url, optionLists: ["ttl=3"], environment: environment, directory: directory.path)
        #expect(before.options.map(\.name) == ["ro", "header", "ttl", "region", "ttl"])
        try "no option".write(toFile: directory.path("a config"), atomically: false, encoding: .utf8)
        environment[OptionSources.keptVariable] = before.kept
        #expect(try OptionSources(for: url, optionLists: ["ttl=3"], environment: environment) == before)
        // Where the files said nothing, nothing is read either.
        environment[OptionSources.keptVariable] = ""
        let nothing = try OptionSources(
            for: url, optionLists: [], environment: environment, directory: directory.path)
        #expect(nothing.options.map(\.name) == ["region"])
    }

    @Test func linesMayEndAsOnWindows() throws {
        let text = "# for all\r\nro\r\n\r\n[s3://photos]\r\nttl = 2\r\n"
        let file = try ConfigFile(parsing: text, path: "config")
        let entries = file.entries(for: try BucketURL(parsing: "s3://photos"))
        #expect(entries.map { "\($0.line) \($0.name) \($0.value ?? "-")" } == ["2 ro -", "5 ttl 2"])
    }

    @Test func aLinkLeadsToTheFile() throws {
        let directory = try TemporaryDirectory()
        let (path, link) = (directory.path("..data"), directory.path("config"))
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(throws: SettingsError.self, "a link that leads nowhere") { try ConfigFile.load(link) }
        try "ttl = 1".write(toFile: path, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(try ConfigFile.load(link)?.entries(for: nil).map(\.name) == ["ttl"])
        try FileManager.default.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
        #expect(throws: SettingsError.self, "what counts is the file's mode") { try ConfigFile.load(link) }
    }

    @Test func aFileThatOthersMayWriteIsRefused() throws {
        let directory = try TemporaryDirectory()
        let path = directory.path("config")
        #expect(try ConfigFile.load(path) == nil)
        try "ttl = 1".write(toFile: path, atomically: false, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        #expect(try ConfigFile.load(path)?.entries(for: nil).map(\.name) == ["ttl"])
        try FileManager.default.setAttributes([.posixPermissions: 0o664], ofItemAtPath: path)
        let error = #expect(throws: SettingsError.self) { try ConfigFile.load(path) }
        #expect(error?.description.contains("chmod go-w") == true)
    }

    @Test func filesAreLookedForWhereTheEnvironmentSays() {
        #expect(OptionSources.paths(["HOME": "/h"]) == ["/etc/pailfs/config", "/h/.config/pailfs/config"])
        #expect(
            OptionSources.paths(["HOME": "/h", "XDG_CONFIG_HOME": "/x"])
                == ["/etc/pailfs/config", "/x/pailfs/config"])
        #expect(OptionSources.paths(["HOME": "/h", "PAILFS_CONFIG": "/a:/b"]) == ["/a", "/b"])
        #expect(OptionSources.paths(["HOME": "/h", "PAILFS_CONFIG": ""]).isEmpty)
    }

    /// As some editors write it in front of the text.
    @Test func aByteOrderMarkIsNoPartOfTheFirstOption() throws {
        let file = try ConfigFile(parsing: "\u{FEFF}ttl = 5\n", path: "config")
        #expect(file.entries(for: nil).map(\.name) == ["ttl"])
    }
}
