import Foundation
import ObjectStorage
import Providers
import Settings
import TestSupport
import Testing

@testable import pailfs

/// Settings of the providers' own tools: each is read, or shown with what does the same.
struct ToolSettingTests {
    private static let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized

    private static func text(_ name: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(name), encoding: .utf8)
    }

    /// The sources but the table itself.
    private static func sources() throws -> String {
        let places = ["Sources/Providers", "Sources/pailfs/Stores"]
        let paths = places.flatMap { place in
            FileManager.default.enumerator(atPath: root.appendingPathComponent(place).path)?
                .compactMap { "\(place)/\($0)" } ?? []
        }
        return try paths.filter { $0.hasSuffix(".swift") && !$0.hasSuffix("ToolSetting+Table.swift") }
            .map { try text($0) }.joined(separator: "\n")
    }

    private static let beginnings = [
        "AWS_", "OSS_", "OSSUTIL_", "ALIBABA_CLOUD_", "TENCENTCLOUD_", "COS_", "TCCLI_", "TKE_", "QINIU_",
        "DISABLE_QINIU_", "CSSP_", "OS_", "ST_",
    ]

    @Test func variablesThatTheCodeReadsAreInTheTable() throws {
        let names = Set(ToolSetting.table.filter { $0.place == .variable && $0.use == .read }.map(\.name))
        let pattern = /"([A-Z][A-Z0-9_]*_[A-Z0-9_]*[A-Z0-9])"/
        let found = Set(try Self.sources().matches(of: pattern).map { String($0.output.1) })
        let ofTools = found.filter { name in Self.beginnings.contains { name.hasPrefix($0) } }
        #expect(ofTools.count > 60)
        #expect(ofTools.subtracting(names).isEmpty)
    }

    @Test func variablesThatTheTableSaysAreReadAreInTheCode() throws {
        let sources = try Self.sources()
        for setting in ToolSetting.table where setting.use == .read && setting.place == .variable {
            let name = setting.name
            let isThere =
                sources.contains("\"\(name)\"") || name.hasPrefix("AWS_ENDPOINT_URL_")
                || name.hasPrefix("OS_") && sources.contains("\"\(name.dropFirst(3).lowercased())\"")
                || name.hasPrefix("OS_TENANT_") || name.hasPrefix("OS_PROJECT_")
            #expect(isThere, "\(name)")
        }
    }

    @Test func eachIsInTheTableOnce() {
        let keys = ToolSetting.table.map { "\($0.place) \($0.store?.rawValue ?? "") \($0.name)" }
        #expect(Set(keys).count == keys.count)
    }

    @Test func optionsThatTheTableNamesAreThere() {
        let options = Set(OptionTable.options.map(\.name))
        for setting in ToolSetting.table {
            guard case .option(let names) = setting.use else { continue }
            #expect(options.isSuperset(of: names), "\(setting.name)")
        }
    }

    @Test func thePageListsThoseThatAreNotRead() throws {
        let page = try Self.text("man/pailfs-stores.7")
        for setting in ToolSetting.table where setting.isUnread {
            let words = page.split { !($0.isLetter || $0.isNumber || "_.".contains($0)) }
            #expect(words.contains { $0 == setting.name || $0 == setting.name + "." }, "\(setting.name)")
        }
    }

    /// Values with which a setting has another effect than a mount.
    private static let values = ["true", "false", "legacy", "when_required", "path", "http", "v1", "text"]

    @Test(arguments: ToolSetting.table)
    func eachThatIsSetIsReadOrShown(_ setting: ToolSetting) throws {
        let scheme = setting.store ?? .s3
        let found = Self.values.flatMap { value in
            ToolSetting.unread(
                in: [ToolSetting.Source(setting.place, "a file", [setting.name: value])], of: scheme)
        }
        guard setting.isUnread else { return #expect(found.isEmpty) }
        let first = try #require(found.first)
        #expect(first.name == setting.name && first.description.contains(" of a file has no effect; "))
        guard case .option(let names) = setting.use else { return }
        let source = ToolSetting.Source(setting.place, "", Dictionary(uniqueKeysWithValues: [(setting.name, "true")]))
        for name in names {
            #expect(ToolSetting.unread(in: [source], of: scheme, options: [name]).isEmpty, "\(name)")
        }
    }

    @Test func theirFilesAreLookedAt() throws {
        let home = try TemporaryDirectory()
        func write(_ name: String, _ text: String) throws {
            let url = URL(fileURLWithPath: home.path(name))
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try text.write(to: url, atomically: true, encoding: .utf8)
        }
        try write(
            ".aws/config",
            "[profile w]\nmax_attempts = 9\nretry_mode =\ns3 =\n  max_bandwidth = 1MB/s\n  addressing_style = virtual\n"
        )
        try write(".ossutilconfig", "[Credentials]\naccessKeyID=a\naccessKeySecret=s\n[Default]\nproxyHost=http://p\n")
        try write(".cos.conf", "[common]\nsecret_id = a\nsecret_key = s\nschema = http\nmax_thread = 5\n")
        try write(".cos.yaml", "cos:\n  base:\n    protocol: http\n")
        try write(
            ".config/openstack/clouds.yaml",
            "clouds: {own: {verify: false, auth: {auth_url: 'http://a', username: u, password: p}}}\n")
        func names(_ url: String, _ options: [String] = [], _ more: [String: String] = [:]) throws -> [String] {
            let environment = ["HOME": home.path("")].merging(more) { $1 }
            return try MountRequest(url: url, mountpoint: "", options: options, environment: environment)
                .unreadSettings.map(\.description)
        }
        #expect(
            try names("s3://b", ["profile=w"]) == [
                "max_attempts of the profile w has no effect; set the option retries",
                "s3.max_bandwidth of the profile w has no effect; set the option upload-limit or download-limit",
            ])
        #expect(
            try names("oss://b") == ["proxyhost of the profile default of ossutil has no effect; set the option proxy"])
        #expect(
            try names("cos://b-1") == [
                "schema of ~/.cos.conf has no effect; set the option endpoint",
                "max_thread of ~/.cos.conf has no effect; set the option uploads or downloads",
                "protocol of ~/.cos.yaml has no effect; set the option endpoint",
            ])
        #expect(
            try names("swift://b") == [
                "verify of the cloud own of clouds.yaml has no effect; set the option ca-file"
            ])
        #expect(try names("swift://b", ["ca-file=/x"]).isEmpty)
    }

    @Test func aProxyInCapitalsIsShownWhereRequestsWouldGoThroughIt() throws {
        func names(_ endpoint: String, _ more: [String: String] = [:]) throws -> [String] {
            try MountRequest(
                url: "s3://b", mountpoint: "", options: ["endpoint=\(endpoint)"],
                environment: ["HTTP_PROXY": "http://p"].merging(more) { $1 }
            ).unreadSettings.map(\.name)
        }
        #expect(try names("http://store") == ["HTTP_PROXY"])
        #expect(try names("https://store").isEmpty)
        #expect(try names("http://127.0.0.1:9000").isEmpty)
        #expect(try names("http://store", ["http_proxy": "http://q"]).isEmpty)
    }
}

extension ToolSetting {
    fileprivate var isUnread: Bool {
        switch use {
        case .read, .meaningless: false
        case .option, .remedy: true
        }
    }
}
