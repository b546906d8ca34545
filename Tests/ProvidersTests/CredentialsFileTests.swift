import Basics
import Foundation
import ObjectStorage
import Providers
import Testing

/// The file of the option credentials-file.
@Suite struct CredentialsFileTests {
    private func variables(
        _ text: String, for scheme: BucketURL.Scheme = .s3, bucket: String = "b"
    ) throws -> [String: String] {
        try CredentialsFile(parsing: text, path: "/f", for: scheme, bucket: bucket).variables
    }

    @Test func linesAreReadAsAShellAndAServiceManagerReadThem() throws {
        let text =
            "\u{FEFF}# keys\r\n; more\r\n\r\n  export PAILFS_ACCESS_KEY_ID = \r\nPAILFS_ACCESS_KEY_ID=\"a b\"\r\n"
            + "PAILFS_SECRET_ACCESS_KEY='s=='\r\nAWS_REGION=eu-west-1  \r\n"
        let found = try variables(
            text.replacing("  export PAILFS_ACCESS_KEY_ID = \r\n", with: "export AWS_PROFILE=p\n"))
        #expect(
            found == [
                "PAILFS_ACCESS_KEY_ID": "a b", "PAILFS_SECRET_ACCESS_KEY": "s==", "AWS_REGION": "eu-west-1",
                "AWS_PROFILE": "p",
            ])
    }

    @Test(arguments: BucketURL.Scheme.allCases.filter { $0 != .swift })
    func aPasswordIsOneLine(_ scheme: BucketURL.Scheme) throws {
        let found = try variables("x:X:xs\nb:B:bs==\nG:gs\n", for: scheme)
        #expect(found == ["PAILFS_ACCESS_KEY_ID": "B", "PAILFS_SECRET_ACCESS_KEY": "bs=="])
        #expect(try variables("G:gs", for: scheme)["PAILFS_ACCESS_KEY_ID"] == "G")
    }

    @Test(arguments: [
        (BucketURL.Scheme.s3, "AWS_PROFILE=p"), (.oss, "OSS_ACCESS_KEY_ID=a"), (.oss, "ALIBABA_CLOUD_ROLE_ARN=r"),
        (.cos, "TENCENTCLOUD_SECRET_ID=a"), (.cos, "COSACCESSKEYID=a"), (.kodo, "QINIU_ACCESS_KEY=a"),
        (.cssp, "CSSP_ACCESS_KEY_ID=a"), (.swift, "OS_CLOUD=c"), (.swift, "OS_USERNAME=u"), (.swift, "ST_USER=u"),
    ])
    func variablesOfEachStoreCount(_ scheme: BucketURL.Scheme, _ line: String) throws {
        #expect(try variables(line, for: scheme).count == 1)
        let other: BucketURL.Scheme = scheme == .s3 ? .oss : .s3
        let error = #expect(throws: ObjectStoreError.self) { try variables(line, for: other) }
        #expect(error?.message.contains("it has no credentials for \(other.rawValue)://b") == true)
    }

    @Test(arguments: [
        ("", "has no credentials"), ("AWS_REGION=r\n", "has no credentials"),
        ("# x\nnonsense\n", "line 2: it is neither"),
        ("PATH=/bin\n", "line 1: PATH is not a variable"), ("a:b:c:d\n", "line 1"),
        ("other:X:xs\n", "has no credentials"),
    ])
    func whatCannotBeUsedNamesItsLineAndNoSecret(text: String, words: String) {
        let error = #expect(throws: ObjectStoreError.self) { try variables(text) }
        #expect(error?.kind == .credentialsRejected)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("nonsense") != true)
    }

    @Test func itTakesThePlaceOfTheEnvironmentsCredentials() throws {
        let file = try CredentialsFile(
            parsing: "PAILFS_ACCESS_KEY_ID=i\nPAILFS_SECRET_ACCESS_KEY=s\n", path: "/f", for: .s3, bucket: "b")
        let environment = [
            "HOME": "/h", "AWS_SESSION_TOKEN": "t", "AWS_REGION": "r", "PAILFS_SESSION_TOKEN": "t", "OS_CLOUD": "c",
            "PAILFS_TTL": "5", "PATH": "/bin",
        ]
        #expect(
            file.applied(to: environment) == [
                "HOME": "/h", "PAILFS_TTL": "5", "PATH": "/bin", "PAILFS_ACCESS_KEY_ID": "i",
                "PAILFS_SECRET_ACCESS_KEY": "s",
            ])
    }

    @Test(arguments: [(0o600, true), (0o400, true), (0o640, false), (0o644, false), (0o660, false), (0o602, false)])
    func noOtherUserMayReadIt(mode: Int, isFine: Bool) throws {
        let place = FileManager.default.temporaryDirectory.appendingPathComponent("keys-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: place) }
        try "id:secret\n".write(toFile: place, atomically: false, encoding: .utf8)
        chmod(place, mode_t(mode))
        // A file of root may be for a group.
        let isRoots = geteuid() == 0
        guard isFine || isRoots && mode == 0o640 else {
            let error = #expect(throws: ObjectStoreError.self) { try CredentialsFile(place, for: .s3, bucket: "b") }
            #expect(error?.message.contains("run chmod 600 \(place)") == true)
            return
        }
        let file = try CredentialsFile(place, for: .s3, bucket: "b")
        #expect(file.variables["PAILFS_ACCESS_KEY_ID"] == "id")
    }

    @Test func aFileThatIsNotThereIsNamed() {
        let error = #expect(throws: ObjectStoreError.self) { try CredentialsFile("/none/such", for: .oss, bucket: "b") }
        #expect(error?.message.contains("credentials-file /none/such") == true)
    }
}
