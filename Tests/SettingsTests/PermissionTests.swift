import Foundation
import ObjectStorage
import Testing

/// The tables of pailfs-stores(7), PERMISSIONS, have the actions that the requests to each store need.
///
/// Sources: Amazon S3, "Required permissions for Amazon S3 API operations"; OSS, "RAM policy overview"; COS, "Authorization
/// policies of the COS API"; Kodo, "kodo IAM actions".
struct PermissionTests {
    enum Store: String, CaseIterable {
        case s3 = "Amazon S3"
        case oss = "Alibaba Cloud OSS"
        case cos = "Tencent Cloud COS"
        case kodo = "Qiniu Kodo"
    }

    private typealias Operation = ObjectStoreError.Operation

    private static let reads: [Operation] = [.list, .checkAccess, .head, .get, .presign, .symlinkTarget]
    private static let writes: [Operation] = [
        .put, .copy, .delete, .deleteMany, .createUpload, .uploadPart, .uploadPartCopy, .listParts, .completeUpload,
        .abortUpload, .updateMetadata, .move, .putSymlink,
    ]
    private static let others: [Operation] = [
        .listUploads, .accessControl, .setAccessControl, .tags, .setTags, .setStorageClass, .restore, .usage,
        .changeBucket, .preflight, .listBuckets, .versions, .deleteVersion,
    ]

    /// What needs no operation of its own: requests that come with others, and what a store checks beyond the request.
    private static let besides: [Store: Set<String>] = [
        .s3: versionReads("s3").union(["s3:GetBucketVersioning", "kms:Decrypt", "kms:GenerateDataKey"]),
        .oss: versionReads("oss").union([
            "oss:GetBucketVersioning", "oss:GetBucketLocation", "kms:Decrypt", "kms:GenerateDataKey",
        ]),
        .cos: ["cos:GetBucketVersioning"], .kodo: [],
    ]

    /// Reads, copies, tags and lists of access of a version that the request names. COS has the actions of the latest for them.
    private static func versionReads(_ service: String) -> Set<String> {
        ["GetObjectVersion", "GetObjectVersionTagging", "GetObjectVersionAcl"].reduce(into: []) {
            $0.insert("\(service):\($1)")
        }
    }

    /// The actions that requests of the operation need, of S3, OSS, COS and Kodo in this order. Kodo has none for what it
    /// lacks; actions whose names its list does not tell are sentences of the page.
    private static func actions(of operation: Operation) -> [[String]] {
        switch operation {
        case .list, .checkAccess: [["s3:ListBucket"], ["oss:ListObjects"], ["cos:GetBucket"], ["kodo/List"]]
        case .head: [["s3:GetObject"], ["oss:GetObject"], ["cos:HeadObject"], ["kodo/Stat"]]
        case .get, .presign: [["s3:GetObject"], ["oss:GetObject"], ["cos:GetObject"], ["kodo/Get"]]
        case .put: [["s3:PutObject"], ["oss:PutObject"], ["cos:PutObject"], ["kodo/Upload"]]
        case .copy:
            [
                ["s3:GetObject", "s3:PutObject"], ["oss:GetObject", "oss:PutObject"],
                ["cos:GetObject", "cos:PutObject"], ["kodo/Stat", "kodo/Copy"],
            ]
        case .updateMetadata:
            [
                ["s3:GetObject", "s3:PutObject"], ["oss:GetObject", "oss:PutObject"],
                ["cos:HeadObject", "cos:GetObject", "cos:PutObject"], ["kodo/Stat", "kodo/Chgm"],
            ]
        case .delete, .deleteMany: [["s3:DeleteObject"], ["oss:DeleteObject"], ["cos:DeleteObject"], ["kodo/Delete"]]
        case .createUpload: [["s3:PutObject"], ["oss:PutObject"], ["cos:InitiateMultipartUpload"], ["kodo/Mkfile"]]
        case .uploadPart: [["s3:PutObject"], ["oss:PutObject"], ["cos:UploadPart"], ["kodo/Mkfile"]]
        case .uploadPartCopy:
            [
                ["s3:GetObject", "s3:PutObject"], ["oss:GetObject", "oss:PutObject"],
                ["cos:GetObject", "cos:UploadPart"], [],
            ]
        case .completeUpload: [["s3:PutObject"], ["oss:PutObject"], ["cos:CompleteMultipartUpload"], ["kodo/Mkfile"]]
        case .listParts: [["s3:ListMultipartUploadParts"], ["oss:ListParts"], ["cos:ListParts"], ["kodo/ListParts"]]
        case .abortUpload:
            [
                ["s3:AbortMultipartUpload"], ["oss:AbortMultipartUpload"], ["cos:AbortMultipartUpload"],
                ["kodo/AbortMultipartUpload"],
            ]
        case .move: [[], [], [], ["kodo/Stat", "kodo/Move"]]
        case .putSymlink: [[], ["oss:PutObject"], [], []]
        case .symlinkTarget: [[], ["oss:GetObject"], [], []]
        case .listUploads:
            [["s3:ListBucketMultipartUploads"], ["oss:ListMultipartUploads"], ["cos:ListMultipartUploads"], []]
        case .accessControl: [["s3:GetObjectAcl"], ["oss:GetObjectAcl"], ["cos:GetObjectACL"], []]
        case .setAccessControl: [["s3:PutObjectAcl"], ["oss:PutObjectAcl"], ["cos:PutObjectACL"], []]
        case .tags: [["s3:GetObjectTagging"], ["oss:GetObjectTagging"], ["cos:GetObjectTagging"], []]
        case .setTags:
            ["s3", "oss", "cos"].map { ["\($0):PutObjectTagging", "\($0):DeleteObjectTagging"] } + [[]]
        case .setStorageClass:
            [
                ["s3:GetObject", "s3:PutObject"], ["oss:GetObject", "oss:PutObject"],
                ["cos:HeadObject", "cos:GetObject", "cos:PutObject"], ["kodo/Stat", "kodo/Chtype"],
            ]
        case .restore: [["s3:RestoreObject"], ["oss:RestoreObject"], ["cos:PostObjectRestore"], []]
        case .usage: [[], ["oss:GetBucketStat"], [], []]
        case .changeBucket, .preflight: [[], [], [], []]
        case .versions:
            [
                ["s3:ListBucketVersions"], ["oss:ListObjectVersions"], ["cos:GetBucketObjectVersions"], [],
            ]
        case .deleteVersion: [["s3:DeleteObjectVersion"], ["oss:DeleteObjectVersion"], ["cos:DeleteObject"], []]
        case .listBuckets: [["s3:ListAllMyBuckets"], ["oss:ListBuckets"], ["cos:GetService"], []]
        }
    }

    private static func actions(of operations: [Operation], at store: Store) throws -> Set<String> {
        let index = try #require(Store.allCases.firstIndex(of: store))
        return Set(operations.flatMap { actions(of: $0)[index] })
    }

    /// Lines of the store's subsection.
    private func section(_ store: Store) throws -> ArraySlice<Substring> {
        let page = try Repository.text("man/pailfs-stores.7").split(separator: "\n", omittingEmptySubsequences: false)
        return page.drop { $0 != ".Sh PERMISSIONS" }.drop { $0 != ".Ss \(store.rawValue)" }.dropFirst()
            .prefix { !$0.hasPrefix(".S") }
    }

    /// Actions of the store's table by their kind.
    private func table(_ store: Store) throws -> [String: Set<String>] {
        let rows = try section(store).compactMap { $0.wholeMatch(of: /\.It Li (\S+) Ta (\w+) Ta \S.*/) }
        let kinds = Dictionary(grouping: rows) { String($0.output.2) }
        return kinds.mapValues { Set($0.map { String($0.output.1) }) }
    }

    @Test(arguments: Store.allCases) func tablesHaveTheActionsThatRequestsNeed(_ store: Store) throws {
        let table = try table(store)
        let read = try Self.actions(of: Self.reads, at: store)
        let write = try Self.actions(of: Self.writes, at: store).subtracting(read)
        let others = try Self.actions(of: Self.others, at: store).subtracting(read).subtracting(write)
        #expect(table["read"] == read)
        #expect(table["write"] == write)
        #expect(table["optional"] == others.union(try #require(Self.besides[store])))
        #expect(Set(table.keys) == ["read", "write", "optional"])
    }

    /// The example allows what a mount for writing needs, and nothing else.
    @Test func thePolicyAllowsTheActionsOfTheTable() throws {
        struct Policy: Decodable {
            struct Statement: Decodable {
                var effect: String
                var action: [String]
                var resource: String

                enum CodingKeys: String, CodingKey {
                    case effect = "Effect"
                    case action = "Action"
                    case resource = "Resource"
                }
            }

            var version: String
            var statement: [Statement]

            enum CodingKeys: String, CodingKey {
                case version = "Version"
                case statement = "Statement"
            }
        }

        let text = try section(.s3).drop { !$0.hasPrefix(".Bd ") }.dropFirst().prefix { $0 != ".Ed" }
            .joined(separator: "\n")
        let policy = try JSONDecoder().decode(Policy.self, from: Data(text.utf8))
        #expect(policy.version == "2012-10-17")
        #expect(policy.statement.allSatisfy { $0.effect == "Allow" })
        let byResource = Dictionary(uniqueKeysWithValues: policy.statement.map { ($0.resource, Set($0.action)) })
        let table = try table(.s3)
        let needed = try #require(table["read"]).union(try #require(table["write"]))
        // Amazon S3, "Actions defined by Amazon S3": this one is an action on the bucket.
        #expect(
            byResource == [
                "arn:aws:s3:::bucket": ["s3:ListBucket"],
                "arn:aws:s3:::bucket/*": needed.subtracting(["s3:ListBucket"]),
            ])
    }
}
