import Foundation
import ObjectStorage
import TestSupport
import Testing

@testable import pailfs

/// Why a bucket cannot be used: each message names the remedy.
@Suite struct StoreProblemTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    private func message(
        _ error: ObjectStoreError, _ url: String = "s3://pail", options: [String] = [],
        environment: [String: String] = [:]
    ) throws -> String {
        let request = try MountRequest(
            url: url, mountpoint: "mnt", options: options, directory: directory.path,
            environment: ["PAILFS_CONFIG": "", "HOME": directory.path].merging(environment) { $1 })
        return CommandError(error, request).message
    }

    @Test func aCOSBucketWithoutItsNumberIsNamed() throws {
        let missing = ObjectStoreError(
            .noSuchBucket, .checkAccess, status: 404, code: "NoSuchBucket",
            message: "The specified bucket does not exist.")
        #expect(try message(missing, "cos://photos").contains("write cos://photos-APPID or set TENCENTCLOUD_APPID"))
        for bucket in ["photos", "photos-2024"] {
            #expect(try message(missing, "cos://\(bucket)").contains("cos://\(bucket)-APPID"))
            let unknown = ObjectStoreError(.unreachable, .checkAccess, message: "Could not resolve host")
            #expect(try message(unknown, "cos://\(bucket)").contains("cos://\(bucket)-APPID"))
        }
        #expect(try !message(missing, "cos://photos-1250000000").contains("APPID"))
        #expect(try !message(missing, "cos://photos", environment: ["COS_APPID": "1250000000"]).contains("APPID"))
        #expect(try !message(missing, "s3://photos").contains("APPID"))
    }

    /// The command restore is for the latest version.
    @Test func anArchivedVersionIsRestoredInTheConsole() throws {
        var error = ObjectStoreError(.archived(restoring: false), .get, key: "k", status: 403, message: "no")
        #expect(try message(error).contains("pailfs restore URL"))
        error.isOfVersion = true
        let text = try message(error)
        #expect(text.contains("console") && !text.contains("pailfs restore"), "\(text)")
    }

    @Test func aProxyThatWantsAnotherPasswordIsNamed() throws {
        let plain = ObjectStoreError(.invalidRequest, .checkAccess, status: 407, message: "the store answered 407")
        let tunnel = ObjectStoreError(.unreachable, .checkAccess, message: "CONNECT tunnel failed, response 407")
        for error in [plain, tunnel] {
            let option = try message(error, options: ["proxy=http://proxy.test:3128"])
            #expect(
                option.contains("the proxy http://proxy.test:3128") && option.contains("password in the option proxy"))
            let variable = try message(error, environment: ["https_proxy": "http://a:b@proxy.test:3128"])
            #expect(variable.contains("password in the variable https_proxy") && !variable.contains("a:b"))
        }
    }

    /// Wherever they were found: nobody looks for a variable that is not set.
    @Test func theSourceOfRefusedCredentialsIsNamed() throws {
        let request = try MountRequest(
            url: "s3://pail", mountpoint: "mnt", options: [], directory: directory.path,
            environment: ["PAILFS_CONFIG": "", "HOME": directory.path])
        for kind in [ObjectStoreError.Kind.credentialsRejected, .credentialsExpired, .accessDenied] {
            let error = ObjectStoreError(kind, .checkAccess, status: 403, message: "no")
            let text = CommandError(error, request, origin: "~/.aws/credentials").message
            #expect(text.contains("the credentials from ~/.aws/credentials"), "\(text)")
            #expect(!text.contains("PAILFS_"), "\(text)")
        }
    }

    @Test func filesWithoutCredentialsAreNamed() throws {
        let refused = ObjectStoreError(.accessDenied, .checkAccess, status: 403, message: "no")
        let files: [(url: String, name: String, text: String)] = [
            ("s3://pail", ".aws/credentials", "[other]\naws_access_key_id = A\n"),
            ("s3://pail", ".passwd-s3fs", "other:A:B\n"), ("oss://pail", ".ossutilconfig", "[Credentials]\n"),
            ("cos://pail-1250000000", ".cos.conf", "[common]\nregion = r\n"),
            ("kodo://pail", ".qiniu/config.toml", "[default]\n"),
        ]
        for file in files {
            let home = try TemporaryDirectory()
            let path = home.path(file.name)
            let place = URL(fileURLWithPath: path).deletingLastPathComponent()
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            try file.text.write(toFile: path, atomically: true, encoding: .utf8)
            let request = try MountRequest(
                url: file.url, mountpoint: "mnt", options: [], directory: home.path,
                environment: ["PAILFS_CONFIG": "", "HOME": home.path])
            let text = CommandError(anonymous: refused, request).message
            #expect(text.contains("(\(path) has none for this bucket)"), "\(text)")
        }
    }

    @Test func aProxyThatRefusesIsNamed() throws {
        let tunnel = ObjectStoreError(.unreachable, .checkAccess, message: "CONNECT tunnel failed, response 403")
        let text = try message(tunnel, options: ["proxy=http://proxy.test:3128"])
        #expect(text.contains("the proxy http://proxy.test:3128") && text.contains("allow the store at the proxy"))
        let plain = ObjectStoreError(.accessDenied, .checkAccess, status: 403, message: "the store answered 403")
        #expect(
            try message(plain, options: ["proxy=http://proxy.test:3128"]).contains("or at the proxy http://proxy.test"))
        #expect(try !message(plain).contains("proxy"))
    }

    @Test func aRedirectAndAWrongRegionHaveTheirRemedies() throws {
        var bare = ObjectStoreError(
            .wrongRegion, .checkAccess, status: 307, message: "the store answered 307; it redirects without a Location")
        bare.direction = .missing
        #expect(try message(bare).contains("set the option endpoint"))
        var told = ObjectStoreError(.wrongRegion, .checkAccess, status: 400, message: "wrong; set region=eu-west-1")
        told.direction = .named
        let text = try message(told)
        #expect(text.contains("set region=eu-west-1") && !text.contains("set the option region"))
        let untold = ObjectStoreError(.wrongRegion, .checkAccess, status: 301, message: "wrong")
        #expect(try message(untold).contains("set the option region"))
    }
}
