import Basics
import HTTP
import ObjectStorage
import TestSupport
import Testing

@testable import Providers

/// Whatever a store, or a file on this machine, says: it is understood or refused, and nothing traps.
@Suite struct FuzzTests {
    private static let documents = [
        """
        <?xml version="1.0"?><ListBucketResult xmlns="x"><EncodingType>url</EncodingType><KeyCount>2</KeyCount>\
        <IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><NextMarker>m</NextMarker>\
        <Contents><Key>a+b%2B</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;e&quot;</ETag>\
        <Size>5</Size><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>\
        </ListBucketResult>
        """,
        """
        <ListPartsResult><IsTruncated>false</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker><Part><PartNumber>1\
        </PartNumber><Size>5</Size><ETag>"e"</ETag><LastModified>2023-11-14T22:13:20Z</LastModified></Part></ListPartsResult>
        """,
        """
        <ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>u</UploadId><Initiated>2023-11-14T22:13:20.000Z\
        </Initiated></Upload><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>
        """,
        "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
        "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>",
        "<DeleteResult><Error><Key>k</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>",
        """
        <AccessControlPolicy><Owner><ID>o</ID></Owner><AccessControlList><Grant><Grantee><ID>o</ID></Grantee><Permission>\
        READ</Permission></Grant></AccessControlList></AccessControlPolicy>
        """,
        "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>",
        "<ListAllMyBucketsResult><Buckets><Bucket><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>",
        "<BucketStat><Storage>5</Storage><ObjectCount>1</ObjectCount></BucketStat>",
    ]

    @Test func documentsInXML() {
        let reader = FamilyDocuments(plusIsSpace: true, standardClass: "STANDARD")
        let names = ["<Key>", "</Key>", "<Contents>", "<IsTruncated>", "<Size>", "<!DOCTYPE", "<![CDATA["]
        Fuzzer("documents in XML", seeds: Self.documents, words: names).run { bytes in
            _ = try? reader.list(bytes)
            _ = try? reader.uploads(bytes)
            _ = try? FamilyDocuments.parts(bytes)
            _ = try? FamilyDocuments.outcome(bytes)
            _ = try? FamilyDocuments.rootText(bytes)
            _ = try? FamilyDocuments.uploadID(bytes)
            _ = try? FamilyDocuments.deleteErrors(bytes)
            _ = try? FamilyDocuments.policy(bytes)
            _ = try? FamilyDocuments.tags(bytes)
            _ = try? FamilyDocuments.usage(bytes)
            _ = try FamilyDocuments.buckets(bytes)
        }
    }

    @Test func documentsInJSON() {
        let seeds = [
            #"[{"name":"a","hash":"d41d8cd98f00b204e9800998ecf8427e","bytes":5,"last_modified":"2023-11-14T22:13:20.000000","#
                + #""content_type":"x"},{"subdir":"d/"}]"#,
            #"{"Number Deleted":1,"Response Status":"200 OK","Errors":[["/c/k","404 Not Found"]]}"#,
            #"[{"name":"/c/seg","bytes":5,"hash":"x"}]"#, #"[{"name":"c","count":1,"bytes":5}]"#,
        ]
        Fuzzer("documents in JSON", seeds: seeds).run(2000) { bytes in
            _ = SwiftDocuments.entries(bytes)
            _ = SwiftDocuments.containers(bytes)
            _ = SwiftDocuments.segmentPaths(bytes)
            _ = SwiftDocuments.segmentErrors(bytes)
            _ = SwiftDocuments.bulkReport(bytes)
        }
    }

    @Test func documentsOfKodo() {
        let seeds = [
            #"{"marker":"eyJjIjowLCJrIjoiYSJ9","items":[{"key":"a","fsize":5,"hash":"Fh8","mimeType":"x","type":1,"#
                + #""putTime":17000000000000000,"restoreStatus":1,"x-qn-meta":{"!mode":"33188"},"parts":[4194304,5]}],"#
                + #""commonPrefixes":["d/"]}"#,
            #"[{"code":200},{"code":612,"data":{"error":"no such file or directory"}}]"#,
            #"{"uploadId":"u","etag":"e","md5":"m","hash":"h","key":"k"}"#,
            #"{"partNumberMarker":2,"parts":[{"partNumber":1,"etag":"e","size":4194304}]}"#, #"["bucket","other"]"#,
            #"{"error":"incorrect region, please use up-z1.qiniup.com"}"#, "eyJjIjowLCJrIjoiYSJ9",
        ]
        let words = ["-", "9223372036854775807", "-9223372036854775808", "1e300", "null", "{}", "[]", "!"]
        Fuzzer("documents of Kodo", seeds: seeds, words: words).run { bytes in
            for object in KodoDocuments.decode(KodoDocuments.List.self, bytes)?.items ?? [] {
                if let info = object.info { #expect(info.version.size >= 0) }
                _ = (object.storageClass, object.version?.modified)
            }
            _ = KodoDocuments.decode([KodoDocuments.BatchItem].self, bytes)
            _ = KodoDocuments.decode(KodoDocuments.Upload.self, bytes)
            _ = KodoDocuments.decode(KodoDocuments.Stored.self, bytes)
            _ = KodoDocuments.decode(KodoDocuments.SentPart.self, bytes)
            _ = KodoDocuments.decode(KodoDocuments.Parts.self, bytes)
            _ = KodoMarker(String(decoding: bytes, as: UTF8.self))
            for status in [400, 401, 403, 579, 612, 631] {
                let response = HTTPResponse(status: status, headers: HTTPHeaders(), body: bytes)
                _ = KodoErrors.rightHost(KodoErrors.error(response, .list, nil))
            }
        }
    }

    @Test func answersOfServicesOfCredentials() {
        let seeds = [
            #"{"Code":"Success","AccessKeyId":"a","SecretAccessKey":"s","Token":"t","Expiration":"2023-11-14T22:13:20Z"}"#,
            #"{"Credentials":{"AccessKeyId":"a","AccessKeySecret":"s","SecurityToken":"t","Expiration":"2023-11-14T22:13:20Z"}}"#,
            #"{"Response":{"Credentials":{"TmpSecretId":"a","TmpSecretKey":"s","Token":"t"},"ExpiredTime":1700000000}}"#,
        ]
        let service = CredentialService(engine: HTTPEngine(), name: "the service")
        let words = ["9223372036854775807", "-9223372036854775808", "99999999999", "null", "{", "}"]
        Fuzzer("answers of services of credentials", seeds: seeds, words: words).run { bytes in
            let credentials = try service.credentials(bytes)
            #expect(!credentials.accessKeyID.isEmpty)
            _ = credentials.expires.map { $0 + .seconds(-300) }
        }
    }

    @Test func answersOfLogins() {
        let seeds = [
            #"{"token":{"expires_at":"2023-11-14T22:13:20.000000Z","catalog":[{"type":"object-store","name":"swift","#
                + #""endpoints":[{"interface":"public","region":"r","region_id":"r","url":"https://h:8080/v1/AUTH_x"}]},"#
                + #"{"type":"identity","endpoints":null}]}}"#,
            #"{"token":{"catalog":[]}}"#, "https://h:8080/v1/AUTH_x", "http://[::1]:8080/a%20b/", "86400",
        ]
        let words = ["http://", "https://", ":", "/", "%2F", "@", "]", "null", "object-store", "public"]
        let secret = Secret("s")
        var keystone = KeystoneLogin(
            url: "http://h:5000/v3", method: .applicationCredential(id: "i", secret: secret))
        let auth = TempAuthLogin(url: "http://h/auth/v1.0", user: "u", key: secret)
        Fuzzer("answers of logins", seeds: seeds, words: words).run { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            let headers = HTTPHeaders([
                ("X-Subject-Token", text), ("X-Auth-Token", text), ("X-Storage-Url", text),
                ("X-Auth-Token-Expires", text),
            ])
            let response = HTTPResponse(status: 201, headers: headers, body: bytes)
            let began = Timestamp(seconds: 1_700_000_000)
            if let expires = try auth.token(response, began: began).expires { #expect(expires >= began) }
            if let address = StorageAddress(text) {
                #expect(address.basePath.isEmpty || address.basePath.hasPrefix("/"))
                _ = address.path("c", "k")
            }
            for region in [nil, "r"] {
                keystone.region = region
                let token = try keystone.token(response)
                _ = (StorageAddress(token.storageURL), token.expires.map { $0 + .seconds(-300) })
            }
        }
    }

    @Test func placesThatStoresName() {
        let host = #"{"domains":["up.example:8080","https://h/"],"old":["h"]}"#
        let seeds = [
            #"{"hosts":[{"region":"z0","ttl":3600,"up":\#(host),"rs":\#(host),"rsf":\#(host),"io":\#(host),"#
                + #""io_src":{"domains":["h"]}}]}"#,
            "http://bucket.s3.eu-west-1.amazonaws.com/?list-type=2", "oss-cn-hangzhou.aliyuncs.com", "127.0.0.1:80",
            "https://h:65535/base/path/",
        ]
        let words = ["https://", "http://", ":", ":0", ":65536", "[", "]", "@", "/", ".", "null", "[]", "{}"]
        Fuzzer("places that stores name", seeds: seeds, words: words).run { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            if let hosts = KodoHosts(json: bytes, isSecure: true) { #expect(!hosts.up.isEmpty && hosts.lifetime >= 60) }
            if let origin = HTTPOrigin(authority: text, isSecure: true) { #expect(!origin.host.isEmpty) }
            let host = FamilyEndpoint.host(of: text)
            for profile in [FamilyProfile.aws, .oss, .cos] {
                _ = (profile.endpoints.region(ofHost: host), profile.endpoints.owns(host))
                _ = try FamilyEndpoint(text, bucket: "bucket", region: "r", addressing: nil, profile: profile).path("k")
            }
        }
    }

    @Test func namesOfMetadata() {
        let seeds = ["mode", "user.colour", "a_b", "--", "--5", "--5f", "x--2e--2E-", "A.b"]
        Fuzzer("names of metadata", seeds: seeds, words: ["--", "-", "_", "5F", "5f"]).run { bytes in
            let names = FamilyProfile.MetadataNames.noUnderscore
            let text = String(decoding: bytes, as: UTF8.self)
            _ = names.decode(text)
            guard text.utf8.allSatisfy({ (33...126).contains($0) }) else { return }
            #expect(names.decode(names.encode(text)) == text)
        }
    }

    @Test func filesOfCredentials() {
        let seeds = [
            "[default]\naws_access_key_id = a\naws_secret_access_key=b\nregion = r\n[profile x]\nrole_arn=y\n",
            "[common]\nsecret_id = a\nsecret_key = b\nbucket = c-1\nregion = r\n", "b:ID:SECRET\nID:SECRET\n",
            "cos:\n  base:\n    secretid: a\n    secretkey: b\n  buckets:\n  - name: b\n    region: r\n    endpoint: e\n",
            "[Credentials]\nlanguage=EN\nendpoint=oss.example\naccessKeyID=a\naccessKeySecret=b\n",
            #"{"current":"x","profiles":[{"name":"x","mode":"AK","access_key_id":"a","access_key_secret":"b"}]}"#,
            "[default]\naccess_key = \"a\"\nsecret_key = \"b\"\n", #"{"AccessKey":"a","SecretKey":"b"}"#,
            """
            clouds:
              here:
                auth: {auth_url: "http://h:5000/v3", username: u, password: p, project_name: x}
                region_name: r
            """,
        ]
        let words = ["[", "]", "- ", "  ", "\t", "cos:", "clouds:", "profiles", "&a", "*a", "|", ">", "#"]
        Fuzzer("files of credentials", seeds: seeds, words: words).run(3000) { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            let read: @Sendable (String) -> String? = { _ in text }
            let environment = ["HOME": "/home", "OS_CLOUD": "here"]
            let profiles = AWSProfiles(config: text, credentials: text)
            _ = try AWSProfiles.keys(profiles.inCredentialsFile["x"], profile: "x", in: "file")
            _ = try CredentialsFile(parsing: text, path: "file", for: .s3, bucket: "b")
            _ = S3Credentials(environment: environment, profile: nil, bucket: "b", text: read).endpoint
            let oss = OSSCredentials(environment: environment, profile: nil, bucket: "b", text: read)
            _ = (oss.region, oss.endpoint)
            let cos = COSCredentials(environment: environment, profile: nil, bucket: "b-1", text: read)
            _ = (cos.region, cos.appID)
            _ = try KodoCredentials(environment: environment, profile: "qshell", text: read).find()
            _ = try KodoCredentials(environment: environment, profile: nil, text: read).find()
            _ = try SwiftCredentials(environment: environment, profile: nil, text: read).find()
        }
    }

    @Test func valuesOfHeaders() {
        let seeds = [
            "Tue, 14 Nov 2023 22:13:20 GMT", "2023-11-14T22:13:20.123Z", "bytes 0-4/5", "a%20b+c", "aGVsbG8=",
            "1700000000.5",
            "\"abc-12\"", "512MiB", "1h30m",
        ]
        Fuzzer("values of headers", seeds: seeds).run { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            _ = (Timestamp(httpDate: text), Timestamp(iso8601: text))
            if let told = FamilyStore.contentRange(HTTPHeaders([("Content-Range", text)])) {
                #expect(!told.range.isEmpty && told.range.upperBound <= told.total)
            }
            if let decoded = PercentEncoding.decode(text) {
                #expect(PercentEncoding.decode(PercentEncoding.encode(decoded)) == decoded)
            }
            if let decoded = Base64.decode(text) { #expect(Base64.decode(Base64.encode(decoded)) == decoded) }
            if let size = ByteSize.parse(text) { #expect(size >= 0) }
            _ = DurationText.parse(text)
            _ = try BucketURL(parsing: "s3://" + text)
        }
    }
}
